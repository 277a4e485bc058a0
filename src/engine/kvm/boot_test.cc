#include "engine/kvm/boot.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/kvm/memory.h"
#include "engine/kvm/testing_kernel.h"

namespace boxlite::engine::kvm {
namespace {

constexpr uint64_t kMemory = 64 << 20;
constexpr uint8_t kCode[] = {0xf4, 0xeb, 0xfd, 0x90};

base::Fd file_of(base::ByteView content) {
    base::Fd fd = base::make_memfd("test", content.size()).value();
    EXPECT_TRUE(base::pwrite_all(fd.get(), content, 0).ok());
    return fd;
}

class BootTest : public ::testing::Test {
  protected:
    Result<BootState> load(base::ByteView kernel, base::ByteView initramfs = {}) {
        BootImage image;
        image.kernel = file_of(kernel);
        if (!initramfs.empty()) image.initramfs = file_of(initramfs);
        image.command_line = "quiet";
        image.memory_bytes = kMemory;
        return load_boot_image(*memory_.view(), image);
    }
    std::string refusal(const TestingKernelHead& head) {
        const auto loaded = load(testing_kernel(head, kCode));
        EXPECT_FALSE(loaded.ok());
        return loaded.ok() ? "" : loaded.error().message;
    }
    template <typename T>
    T at(uint64_t address) {
        T value{};
        EXPECT_TRUE(memory_.view()->read_value(address, &value));
        return value;
    }
    MachineMemory memory_ = MachineMemory::make(kMemory).value();
    const TestingKernelHead good_ = testing_kernel_head(sizeof kCode);
};

// Offsets from Xen's public/arch-x86/hvm/start_info.h.
TEST_F(BootTest, TheKernelFindsWhatItIsStartedWith) {
    const base::Bytes initramfs(5000, 0x5a);
    const auto state = load(testing_kernel(kCode), initramfs);
    ASSERT_TRUE(state.ok()) << state.error().message;
    EXPECT_EQ(state->entry, 0x100000u);
    EXPECT_EQ(at<uint32_t>(0x100000), 0x90fdebf4u);
    const uint64_t info = state->start_info;
    EXPECT_EQ(at<uint32_t>(info), 0x336ec578u);
    EXPECT_EQ(at<uint32_t>(info + 4), 1u);
    EXPECT_EQ(at<uint32_t>(info + 12), 1u);
    const auto module = at<uint64_t>(info + 16);
    EXPECT_EQ(at<uint64_t>(module), kMemory - 8192);
    EXPECT_EQ(at<uint64_t>(module + 8), 5000u);
    EXPECT_EQ(at<uint8_t>(kMemory - 8192 + 4999), 0x5a);
    const auto line = at<std::array<char, 6>>(at<uint64_t>(info + 24));
    EXPECT_STREQ(line.data(), "quiet");
    EXPECT_EQ(at<uint64_t>(info + 32), 0u);
    EXPECT_EQ(at<uint32_t>(info + 48), 2u);
    const auto map = at<uint64_t>(info + 40);
    EXPECT_EQ(at<uint64_t>(map + 24), 0x100000u);
    EXPECT_EQ(at<uint64_t>(map + 32), kMemory - 0x100000);
    EXPECT_EQ(at<uint32_t>(map + 40), 1u);
}

TEST_F(BootTest, WhatIsNoKernelForThisMachineIsRefused) {
    EXPECT_FALSE(load(base::Bytes(10)).ok());
    EXPECT_FALSE(load(base::Bytes(1000)).ok());
    auto head = good_;
    head.note.n_type = 17;
    EXPECT_NE(refusal(head).find("PVH"), std::string::npos);
    head = good_;
    head.elf.e_machine = EM_AARCH64;
    EXPECT_NE(refusal(head).find("x86_64"), std::string::npos);
    head = good_;
    head.load.p_paddr = 0xff000;
    EXPECT_NE(refusal(head).find("out of place"), std::string::npos);
    head = good_;
    head.load.p_memsz = UINT64_MAX;
    EXPECT_NE(refusal(head).find("out of place"), std::string::npos);
    head = good_;
    head.load.p_paddr = kMemory - 2;
    EXPECT_NE(refusal(head).find("do not fit"), std::string::npos);
    head = good_;
    head.load.p_filesz = head.load.p_memsz = 1 << 20;  // more than the file has
    EXPECT_FALSE(refusal(head).empty());
}

TEST_F(BootTest, AnInitramfsThatDoesNotFitIsRefused) {
    auto head = good_;
    head.load.p_memsz = kMemory - 0x200000;
    const auto loaded = load(testing_kernel(head, kCode), base::Bytes(4 << 20));
    ASSERT_FALSE(loaded.ok());
    EXPECT_NE(loaded.error().message.find("give it more memory"), std::string::npos);
}

TEST_F(BootTest, ACommandLineThatIsTooLongIsRefused) {
    BootImage image;
    image.kernel = file_of(testing_kernel(kCode));
    image.command_line = std::string(2048, 'x');
    image.memory_bytes = kMemory;
    EXPECT_EQ(load_boot_image(*memory_.view(), image).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(BootTest, DamagedKernelsAreHarmless) {
    std::mt19937 random(1);
    const base::Bytes whole = testing_kernel(kCode);
    for (int i = 0; i < 3000; ++i) {
        base::Bytes damaged = whole;
        for (int n = 0; n < 3; ++n) damaged[random() % damaged.size()] = static_cast<uint8_t>(random());
        if (random() % 4 == 0) damaged.resize(random() % damaged.size() + 1);
        (void)load(damaged);
    }
    EXPECT_TRUE(load(whole).ok());
}

}  // namespace
}  // namespace boxlite::engine::kvm
