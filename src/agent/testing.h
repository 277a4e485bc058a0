// For the tests: a container on a directory of the host, served by a process of its own, as the agent would.
// Needs root.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "rpc/box.pb.h"
#include "rpc/client.h"

namespace boxlite::agent_test {

struct Finished {
    std::string out;
    std::string err;
    v1::ExitStatus status;
};

class ContainerTest : public testing::Test {
  protected:
    ContainerTest();
    ~ContainerTest() override;

    // Until then root_ can be filled. The container has busybox as /bin/*.
    void serve(const v1::ContainerSpec& spec = {}, bool idle_init = true);
    // Ends the server; what is left of the container is killed. Returns the server's own report.
    void stop();

    static v1::ProcessSpec program(const std::vector<std::string>& argv);
    static v1::ProcessSpec shell(const std::string& script) { return program({"sh", "-c", script}); }

    Result<int> start(const std::string& id, const v1::ProcessSpec& spec);
    // Everything up to the end of the stream.
    std::string read_all(const std::string& id, v1::Stream stream = v1::STDOUT);
    // As much as one request gives.
    v1::ReadResponse read(const std::string& id, v1::Stream stream = v1::STDOUT, uint32_t max = 1 << 20);
    v1::ExitStatus wait(const std::string& id);
    Result<void> write(const std::string& id, const std::string& data, bool close = false);
    Result<void> signal(const std::string& id, int number, bool group = false);
    Result<void> close(const std::string& id);
    // Starts it, reads all of it and waits. Fails the test when it does not start.
    Finished run(const v1::ProcessSpec& spec);
    std::string output(const std::string& script) { return run(shell(script)).out; }

    template <typename Response>
    Result<Response> files(const std::string& method, const rpc::Payload& request) {
        return client(0).call<Response>("boxlite.v1.Files", method, request, kPatience);
    }
    // A second connection, for calls beside one that waits.
    rpc::Client& client(size_t number) { return *clients_.at(number); }
    std::string root(const std::string& path = "") const { return dir_.path() + "/root" + path; }
    void put(const std::string& path, const std::string& content, mode_t mode = 0644) const;
    pid_t server() const { return server_; }

    static constexpr std::chrono::milliseconds kPatience{20'000};
    static constexpr const char* kExecution = "boxlite.v1.Execution";

  private:
    base::TempDir dir_ = base::TempDir::make().value();
    std::vector<std::unique_ptr<rpc::Client>> clients_;
    pid_t server_ = 0;
    int next_id_ = 0;
};

}  // namespace boxlite::agent_test
