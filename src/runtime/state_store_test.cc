#include "runtime/state_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "base/file.h"
#include "base/id.h"

namespace boxlite::runtime {
namespace {

class StateStoreTest : public ::testing::Test {
  protected:
    StateStoreTest()
        : dir_(base::TempDir::make().value()), home_(Home::open(dir_.path() + "/home").value()) {}

    std::unique_ptr<StateStore> open() {
        auto store = StateStore::open(home_);
        EXPECT_TRUE(store.ok()) << store.error().message;
        return std::move(store).value();
    }

    static BoxRecord record(const std::string& id, const std::string& name) {
        BoxRecord record;
        record.config.id = id;
        record.config.name = name;
        record.config.image_id = "sha256:image";
        record.config.base = "sha256:base";
        record.config.created_at = 1;
        return record;
    }

    base::TempDir dir_;
    Home home_;
};

TEST_F(StateStoreTest, ARecordComesBackAsItWasWritten) {
    BoxRecord in = record("aaaabbbbcccc", "one");
    in.config.cpus = 3;
    in.config.memory_mib = 4096;
    in.config.disk_bytes = uint64_t{1} << 62;
    in.config.env = {"A=1", "B=\xff\x00q", std::string("C=\0", 3), "D=\xed\xa0\x80", "E=ümläut"};
    in.config.argv = {"sh", "-c", ""};
    in.config.stop_signal = 37;
    in.config.cap_add = {"NET_ADMIN"};
    in.config.tty = in.config.strict = in.config.auto_remove = true;
    in.state.status = BoxStatus::kStopped;
    in.state.exit_code = 137;
    in.state.reason = "killed";
    in.state.boot_id = "b";
    {
        auto store = open();
        ASSERT_TRUE(store->add_base("sha256:base", "sha256:image").ok());
        ASSERT_TRUE(store->add_box(in, true).ok());
    }
    const BoxRecord out = open()->box_by_id("aaaabbbbcccc").value();
    EXPECT_EQ(out.config.env, in.config.env);
    EXPECT_EQ(out.config.argv, in.config.argv);
    EXPECT_EQ(out.config.disk_bytes, in.config.disk_bytes);
    EXPECT_EQ(out.config.stop_signal, 37);
    EXPECT_EQ(out.config.cap_add, in.config.cap_add);
    EXPECT_TRUE(out.config.tty && out.config.strict && out.config.auto_remove);
    EXPECT_FALSE(out.config.detach || out.config.privileged || out.config.stdin_open);
    EXPECT_EQ(out.state, in.state);
}

TEST_F(StateStoreTest, BoxesOfAPrivateNetworkGetAddressesThatNoOtherHas) {
    auto store = open();
    ASSERT_TRUE(store->add_base("sha256:base", "sha256:image").ok());
    const auto add = [](StateStore& to, const std::string& id, const std::string& network) {
        BoxRecord box = record(id, id);
        box.config.private_network = network;
        box.config.private_address = "10.1.1.1";  // a parent's, in a fork
        return to.add_box(box, false).value();
    };
    EXPECT_EQ(store->add_box(record("plain", "plain"), false)->private_address, "");
    const BoxConfig one = add(*store, "one", "backend");
    EXPECT_EQ(store->box_by_id("one")->config.private_address, one.private_address);
    EXPECT_EQ(store->box_by_id("one")->config.private_address6, one.private_address6);
    // At the same time, as other processes would.
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            auto other = StateStore::open(home_).value();
            for (int i = 0; i < 10; ++i)
                add(*other, "t" + std::to_string(t) + std::to_string(i), i % 2 ? "backend" : "front");
        });
    for (std::thread& thread : threads) thread.join();
    std::set<std::string> seen;
    const auto boxes = store->boxes().value();
    for (const BoxRecord& box : boxes)
        if (!box.config.private_network.empty()) {
            EXPECT_TRUE(seen.insert(box.config.private_address).second) << box.config.private_address;
            EXPECT_TRUE(seen.insert(box.config.private_address6).second) << box.config.private_address6;
        }
    EXPECT_EQ(seen.size(), 82u);
    ASSERT_TRUE(store->remove_box("one").value());
    EXPECT_EQ(add(*store, "next", "backend").private_address, one.private_address);
}

TEST_F(StateStoreTest, BoxesAreFoundByIdNameAndUniquePrefix) {
    auto store = open();
    ASSERT_TRUE(store->add_base("sha256:base", "sha256:image").ok());
    ASSERT_TRUE(store->add_box(record("abc111111111", "abc2"), false).ok());
    ASSERT_TRUE(store->add_box(record("abc222222222", "other"), false).ok());
    EXPECT_EQ(store->find_box("abc222222222")->config.name, "other");
    EXPECT_EQ(store->find_box("abc2")->config.name, "abc2") << "a name wins over a prefix";
    EXPECT_EQ(store->find_box("abc1")->config.name, "abc2");
    EXPECT_EQ(store->find_box("abc").error().code, ErrorCode::kInvalidArgument);
    for (const char* missing : {"", "abd", "*", "abc?", "ABC1"})
        EXPECT_EQ(store->find_box(missing).error().code, ErrorCode::kNotFound) << missing;
}

TEST_F(StateStoreTest, NamesAreUniqueAcrossProcesses) {
    open();
    constexpr int kProcesses = 6;
    std::vector<pid_t> children;
    for (int i = 0; i < kProcesses; ++i) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            auto store = StateStore::open(home_);
            if (!store.ok() || !(*store)->add_base("sha256:base", "sha256:image").ok()) ::_exit(2);
            const auto added = (*store)->add_box(record(base::random_id(), "wanted"), true);
            ::_exit(added.ok() ? 0 : added.error().code == ErrorCode::kAlreadyExists ? 1 : 3);
        }
        children.push_back(pid);
    }
    int winners = 0;
    for (const pid_t child : children) {
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFEXITED(status));
        ASSERT_LE(WEXITSTATUS(status), 1);
        winners += WEXITSTATUS(status) == 0;
    }
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(open()->boxes()->size(), 1u);
}

TEST_F(StateStoreTest, ManyProcessesMayMakeTheDatabaseAtOnce) {
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) {
        const pid_t pid = ::fork();
        if (pid == 0) ::_exit(StateStore::open(home_).ok() ? 0 : 1);
        children.push_back(pid);
    }
    for (const pid_t child : children) {
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
}

TEST_F(StateStoreTest, AWriterThatIsKilledLeavesAWholeDatabase) {
    for (int round = 0; round < 10; ++round) {
        base::FdPair pipe = base::make_pipe().value();
        const pid_t pid = ::fork();
        if (pid == 0) {
            auto store = StateStore::open(home_).value();
            (void)store->add_base("sha256:base", "sha256:image");
            for (;;) {
                const std::string id = base::random_id();
                if (store->add_box(record(id, id), false).ok())
                    (void)base::write_all(pipe.second.get(), base::as_bytes(id));
            }
        }
        pipe.second.reset();
        std::string id(12, '\0');
        ASSERT_TRUE(
            base::read_exact(pipe.first.get(), {reinterpret_cast<uint8_t*>(id.data()), id.size()}).ok());
        ::kill(pid, SIGKILL);
        ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
        auto store = open();
        EXPECT_TRUE(*store->has_box(id)) << "a reported box is there";
        ASSERT_TRUE(store->boxes().ok());
    }
}

TEST_F(StateStoreTest, ABaseIsUnusedWhenNoImageAndNoBoxNeedsIt) {
    auto store = open();
    ASSERT_TRUE(store->add_base("sha256:base", "sha256:image").ok());
    ASSERT_TRUE(store->add_base("sha256:base", "sha256:second-name-of-the-same-layers").ok());
    EXPECT_TRUE(*store->has_base("sha256:base", "sha256:image"));
    EXPECT_FALSE(*store->has_base("sha256:base", "sha256:other"));
    ASSERT_TRUE(store->add_box(record("aaaaaaaaaaaa", "a"), false).ok());
    ASSERT_TRUE(store->release_image("sha256:image").ok());
    EXPECT_TRUE(store->take_unused_bases()->empty());
    ASSERT_TRUE(store->release_image("sha256:second-name-of-the-same-layers").ok());
    EXPECT_TRUE(store->take_unused_bases()->empty());
    EXPECT_TRUE(*store->remove_box("aaaaaaaaaaaa"));
    EXPECT_FALSE(*store->remove_box("aaaaaaaaaaaa"));
    EXPECT_EQ(*store->take_unused_bases(), std::vector<std::string>{"sha256:base"});
    EXPECT_FALSE(*store->has_base("sha256:base", "sha256:image"));
}

TEST_F(StateStoreTest, ABoxWithoutItsBaseIsRefused) {
    EXPECT_FALSE(open()->add_box(record("aaaaaaaaaaaa", "a"), false).ok());
}

TEST_F(StateStoreTest, ANewerDatabaseIsLeftAlone) {
    open();
    {
        Database database = Database::open(home_.database()).value();
        ASSERT_TRUE(database.execute("PRAGMA user_version = 99").ok());
    }
    const auto store = StateStore::open(home_);
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(store.error().message.find("newer"), std::string::npos);
}

TEST_F(StateStoreTest, DamageIsToldAndDoesNotEndTheProcess) {
    EXPECT_EQ(decode_config("{").error().code, ErrorCode::kMetadata);
    EXPECT_EQ(decode_config("[]").error().code, ErrorCode::kMetadata);
    EXPECT_EQ(decode_config(R"({"cpus":"two"})").error().code, ErrorCode::kMetadata);
    EXPECT_EQ(decode_config(R"({"env":["A=1",7]})").error().code, ErrorCode::kMetadata);
    EXPECT_EQ(decode_state(R"({"status":"dancing"})").error().code, ErrorCode::kMetadata);
    EXPECT_TRUE(decode_state(R"({"status":"running","added_later":1})").ok());
    ASSERT_TRUE(base::write_file_atomically(home_.database(), base::as_bytes("this is no database")).ok());
    const auto store = StateStore::open(home_);
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.error().code, ErrorCode::kDatabase);
}

TEST_F(StateStoreTest, ThreadsShareAStore) {
    auto store = open();
    ASSERT_TRUE(store->add_base("sha256:base", "sha256:image").ok());
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 25; ++i) {
                const std::string id = base::random_id();
                EXPECT_TRUE(store->add_box(record(id, id), false).ok());
                EXPECT_TRUE(store->boxes().ok());
            }
        });
    threads.clear();
    EXPECT_EQ(store->boxes()->size(), 100u);
}

}  // namespace
}  // namespace boxlite::runtime
