// What an Execution handle refers to: connections to the box's supervisor, one for each thing that may block,
// so that no call waits for another.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "boxlite/execution.h"
#include "runtime/box_impl.h"

namespace boxlite {

class ExecutionImpl {
  public:
    // An exec that has been started, or the main process (kMainExecution).
    ExecutionImpl(std::shared_ptr<const BoxImpl> box, std::string id)
        : box_(std::move(box)), id_(std::move(id)) {}
    ~ExecutionImpl();

    const std::string& id() const { return id_; }

    // Takes over a connection that nothing else uses, over which output has been asked for already:
    // `first_read`. Without it one is made when it is needed.
    Result<void> read_over(rpc::Client client, uint32_t first_read);
    // Only for the main process: where in its output reading starts.
    void start_reading_at(uint64_t offset);
    // Only for a main process that is about to start: from now on its supervisor waits for this reader.
    Result<void> hold_output();

    Result<std::string> read(Stream stream, size_t max_bytes);
    Result<void> write(std::string_view data, bool close);
    Result<ExitStatus> wait();
    Result<void> signal(int number);
    Result<void> resize(TerminalSize size);
    void disconnect();

  private:
    struct Lane {
        std::mutex mutex;
        std::optional<rpc::Client> client;  // connected when first needed
        // The client's socket, for disconnect(): a descriptor of its own, since the client may close its.
        std::mutex socket_mutex;
        base::Fd socket;
    };
    // The output of the main process is a log that both streams share. Of an exec, `pending` alone is used.
    struct LogCursor {
        uint64_t offset = 0;
        int64_t last_time = INT64_MIN;  // of the last record taken, in ns since the epoch
        std::string pending;
        bool ended = false;
    };

    bool is_main() const { return id_ == runtime::kMainExecution; }
    Result<void> use(Lane& lane, rpc::Client client);
    template <typename Response>
    Result<Response> call(Lane& lane, std::string_view method, const google::protobuf::MessageLite& request);
    Result<std::string> read_exec(Lane& lane, Stream stream, size_t max_bytes);
    Result<std::string> read_first(Lane& lane);
    Result<std::string> read_log(Lane& lane, LogCursor& cursor, Stream stream, size_t max_bytes);
    Result<void> fill(Lane& lane, LogCursor& cursor, Stream stream, size_t max_bytes, bool follow);
    Result<void> fill_from_files(LogCursor& cursor, Stream stream) const;
    Result<ExitStatus> status_of_ended_box(Error error) const;

    const std::shared_ptr<const BoxImpl> box_;  // keeps the lifeline of a box that is not detached
    const std::string id_;
    std::array<Lane, 2> output_;  // by Stream
    std::array<LogCursor, 2> cursors_;
    std::optional<uint32_t> first_read_;  // guarded by the lane of standard output, as its cursor is
    Lane input_;
    Lane wait_;
    Lane control_;
    std::atomic<bool> disconnected_ = false;
    std::optional<ExitStatus> exit_;  // guarded by wait_.mutex
};

namespace runtime {

ExitStatus from_wire(const v1::ExitStatus& status);

Result<Execution> start_execution(std::shared_ptr<const BoxImpl> box, const Command& command);
Result<Execution> run_main(const std::shared_ptr<const BoxImpl>& box, const StartOptions& options);
Result<Execution> attach_main(const std::shared_ptr<const BoxImpl>& box, bool from_beginning);

}  // namespace runtime
}  // namespace boxlite
