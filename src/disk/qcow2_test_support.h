// For the tests of qcow2 images: foreign tools, and a file in memory that records what is done to it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/process.h"
#include "disk/qcow2.h"

namespace boxlite::disk::testing {

template <typename T>
T must(Result<T> result) {
    if (!result.ok()) ADD_FAILURE() << result.error().message;
    return std::move(result).value();
}
inline void must(const Result<void>& result) {
    if (!result.ok()) ADD_FAILURE() << result.error().message;
}

inline base::CommandOutput run(const std::vector<std::string>& argv) {
    return must(base::run_command(argv));
}

// qemu-img check: 0 clean, 2 corrupt, 3 leaked clusters.
inline int qemu_check(const std::string& path, std::string* said = nullptr) {
    const auto output = run({"qemu-img", "check", "-f", "qcow2", path});
    if (said) *said = output.out + output.err;
    return output.status.code;
}

inline void expect_clean(const std::string& path) {
    std::string said;
    EXPECT_EQ(qemu_check(path, &said), 0) << path << "\n" << said;
}

inline void write_whole(const std::string& path, base::ByteView content) {
    const auto fd = must(base::open_file(path, O_WRONLY | O_CREAT | O_TRUNC));
    must(base::write_all(fd.get(), content));
}

class Random {
  public:
    explicit Random(uint64_t seed) : engine_(seed) {}
    uint64_t below(uint64_t n) { return engine_() % n; }
    bool one_in(uint64_t n) { return below(n) == 0; }
    base::Bytes bytes(size_t n) {
        base::Bytes out(n);
        for (size_t i = 0; i < n; i += 8) {
            const uint64_t word = engine_();
            std::memcpy(&out[i], &word, std::min<size_t>(8, n - i));
        }
        return out;
    }

  private:
    std::mt19937_64 engine_;
};

// What was done to a file, in order.
struct Event {
    enum Kind { kWrite, kZero, kSync } kind;
    uint64_t offset = 0;
    base::Bytes data;     // kWrite
    uint64_t length = 0;  // kZero
};

// A file in memory with the record of its changes.
struct MemoryFile {
    base::Bytes content;
    std::vector<Event> events;

    static void apply(base::Bytes& content, const Event& event) {
        if (event.kind == Event::kWrite) {
            if (content.size() < event.offset + event.data.size())
                content.resize(event.offset + event.data.size());
            std::ranges::copy(event.data, content.begin() + static_cast<ptrdiff_t>(event.offset));
        } else if (event.kind == Event::kZero) {
            const uint64_t end = std::min<uint64_t>(content.size(), event.offset + event.length);
            for (uint64_t i = event.offset; i < end; ++i) content[i] = 0;
        }
    }
    void add(Event event) {
        apply(content, event);
        events.push_back(std::move(event));
    }
};

// One process's hold of a MemoryFile. It can be made to die, or to fail once.
class MemoryIo final : public BlockIo {
  public:
    struct Faults {
        int64_t calls_to_live = -1;   // changes until all fail, -1 never: a killed process
        int64_t calls_to_fault = -1;  // changes until one fails: a full disk
        int syncs = 0;
    };
    MemoryIo(std::shared_ptr<MemoryFile> file, std::shared_ptr<Faults> faults)
        : file_(std::move(file)), faults_(std::move(faults)) {}

    Result<void> readv(uint64_t offset, std::span<const iovec> into) override {
        for (const iovec& v : into) {
            std::memset(v.iov_base, 0, v.iov_len);
            if (offset < file_->content.size())
                std::memcpy(v.iov_base, &file_->content[offset],
                            std::min<uint64_t>(v.iov_len, file_->content.size() - offset));
            offset += v.iov_len;
        }
        return {};
    }
    Result<void> writev(uint64_t offset, std::span<const iovec> from) override {
        TRY(change());
        Event event{Event::kWrite, offset, {}, 0};
        for (const iovec& v : from) {
            const auto* bytes = static_cast<const uint8_t*>(v.iov_base);
            event.data.insert(event.data.end(), bytes, bytes + v.iov_len);
        }
        file_->add(std::move(event));
        return {};
    }
    Result<void> zero(uint64_t offset, uint64_t length) override {
        TRY(change());
        file_->add({Event::kZero, offset, {}, length});
        return {};
    }
    Result<void> punch(uint64_t offset, uint64_t length) override { return zero(offset, length); }
    Result<void> sync() override {
        if (faults_->calls_to_live == 0) return base::make_error(ErrorCode::kStorage, "the process is dead");
        ++faults_->syncs;
        file_->add({Event::kSync, 0, {}, 0});
        return {};
    }
    Result<uint64_t> size() override { return uint64_t{file_->content.size()}; }
    Result<uint64_t> allocated() override { return size(); }

  private:
    Result<void> change() {
        if (faults_->calls_to_live == 0) return base::make_error(ErrorCode::kStorage, "the process is dead");
        if (faults_->calls_to_live > 0) --faults_->calls_to_live;
        if (faults_->calls_to_fault < 0 || faults_->calls_to_fault-- > 0) return {};
        return base::make_error(ErrorCode::kResourceExhausted, "no space left");
    }
    std::shared_ptr<MemoryFile> file_;
    std::shared_ptr<Faults> faults_;
};

}  // namespace boxlite::disk::testing
