#include "boxlite/execution.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/id.h"
#include "base/log.h"
#include "runtime/execution_impl.h"
#include "runtime/process_settings.h"
#include "runtime/specs.h"
#include "runtime/write_pieces.h"
#include "shim/output_log.h"

namespace boxlite {

using runtime::kBoxService;
using runtime::kExecutionService;

namespace {

constexpr std::chrono::milliseconds kCloseBudget{2'000};
constexpr uint32_t kFirstRead = uint32_t{64} << 10;

Error disconnected() {
    return base::make_error(ErrorCode::kStopped, "the execution was disconnected");
}

std::string take_front(std::string& pending, size_t max_bytes) {
    std::string data = pending.substr(0, max_bytes);
    pending.erase(0, data.size());
    return data;
}

}  // namespace

ExecutionImpl::~ExecutionImpl() {
    if (is_main() || disconnected_) return;
    v1::ExecutionId id;
    id.set_id(id_);
    // Over a connection of its own, with a limit: a box that hangs must not hang its clients' destructors.
    if (auto client = runtime::connect_client(box_->folder); client.ok())
        (void)client->call<v1::Empty>(kExecutionService, "Close", id, kCloseBudget);
}

void ExecutionImpl::start_reading_at(uint64_t offset) {
    for (LogCursor& cursor : cursors_) cursor.offset = offset;
}

Result<void> ExecutionImpl::read_over(rpc::Client client, uint32_t first_read) {
    first_read_ = first_read;
    return use(output_[static_cast<size_t>(Stream::kStdout)], std::move(client));
}

Result<void> ExecutionImpl::use(Lane& lane, rpc::Client client) {
    lane.client.emplace(std::move(client));
    base::Fd socket(::fcntl(lane.client->fd(), F_DUPFD_CLOEXEC, 0));
    if (!socket.valid())
        return base::errno_error(ErrorCode::kPortal, "connect to box '{}'", box_->config.name);
    const std::scoped_lock lock(lane.socket_mutex);
    lane.socket = std::move(socket);
    return {};
}

template <typename Response>
Result<Response> ExecutionImpl::call(Lane& lane, std::string_view method,
                                     const google::protobuf::MessageLite& request) {
    if (!lane.client || !lane.client->connected()) TRY(use(lane, TRY(runtime::connect_client(box_->folder))));
    // After the socket is known: either disconnect() sees it or this sees disconnect().
    if (disconnected_ && &lane != &control_) return disconnected();
    return lane.client->call<Response>(method == "ReadLog" ? kBoxService : kExecutionService, method,
                                       request);
}

void ExecutionImpl::disconnect() {
    disconnected_ = true;
    for (Lane* lane : {&output_[0], &output_[1], &input_, &wait_}) {
        const std::scoped_lock lock(lane->socket_mutex);
        if (lane->socket.valid()) ::shutdown(lane->socket.get(), SHUT_RDWR);
    }
}

Result<std::string> ExecutionImpl::read(Stream stream, size_t max_bytes) {
    const auto index = static_cast<size_t>(stream);
    Lane& lane = output_[index];
    const std::scoped_lock lock(lane.mutex);
    max_bytes = std::clamp<size_t>(max_bytes, 1, Execution::kMaxChunk);
    if (is_main()) return read_log(lane, cursors_[index], stream, max_bytes);
    return read_exec(lane, stream, max_bytes);
}

Result<std::string> ExecutionImpl::read_first(Lane& lane) {
    const uint32_t read = *std::exchange(first_read_, std::nullopt);
    if (disconnected_) return disconnected();
    auto response = TRY(lane.client->take<v1::ReadResponse>(read, "Read"));
    return std::move(*response.mutable_data());
}

Result<std::string> ExecutionImpl::read_exec(Lane& lane, Stream stream, size_t max_bytes) {
    std::string& pending = cursors_[static_cast<size_t>(stream)].pending;
    if (stream == Stream::kStdout && first_read_) {
        pending = TRY(read_first(lane));
        if (pending.empty()) return pending;
    }
    if (!pending.empty()) return take_front(pending, max_bytes);
    v1::ReadRequest request;
    request.set_id(id_);
    request.set_stream(stream == Stream::kStderr ? v1::STDERR : v1::STDOUT);
    request.set_max_bytes(static_cast<uint32_t>(max_bytes));
    auto response = TRY(call<v1::ReadResponse>(lane, "Read", request));
    return std::move(*response.mutable_data());
}

Result<std::string> ExecutionImpl::read_log(Lane& lane, LogCursor& cursor, Stream stream, size_t max_bytes) {
    while (cursor.pending.empty() && !cursor.ended) TRY(fill(lane, cursor, stream, max_bytes, true));
    return take_front(cursor.pending, max_bytes);
}

Result<void> ExecutionImpl::fill(Lane& lane, LogCursor& cursor, Stream stream, size_t max_bytes,
                                 bool follow) {
    v1::ReadLogRequest request;
    request.set_offset(cursor.offset);
    request.set_max_bytes(static_cast<uint32_t>(std::max<size_t>(max_bytes, size_t{64} << 10)));
    request.set_follow(follow);
    request.set_hold(true);
    auto response = call<v1::ReadLogResponse>(lane, "ReadLog", request);
    if (!response.ok() && response.error().code == ErrorCode::kPortal && !disconnected_)
        return fill_from_files(cursor, stream);
    if (!response.ok()) return std::move(response).error();
    for (const v1::LogChunk& chunk : response->chunks()) {
        cursor.last_time = chunk.time_ns();
        if (chunk.stream() == (stream == Stream::kStderr ? v1::STDERR : v1::STDOUT))
            cursor.pending += chunk.data();
    }
    cursor.offset = response->next_offset();
    cursor.ended = response->eof();
    return {};
}

// The supervisor has ended: the rest is what it left behind.
Result<void> ExecutionImpl::fill_from_files(LogCursor& cursor, Stream stream) const {
    cursor.ended = true;
    return shim::read_output_log(box_->folder.output_log(), [&](const shim::LogRecord& record) {
        if (record.time_ns > cursor.last_time && record.stream == (stream == Stream::kStderr ? 1 : 0))
            cursor.pending += record.data;
        return true;
    });
}

Result<void> ExecutionImpl::hold_output() {
    for (const Stream stream : {Stream::kStdout, Stream::kStderr}) {
        const auto index = static_cast<size_t>(stream);
        const std::scoped_lock lock(output_[index].mutex);
        cursors_[index].ended = box_->config.tty && stream == Stream::kStderr;
        if (!cursors_[index].ended) TRY(fill(output_[index], cursors_[index], stream, 1, false));
    }
    return {};
}

Result<void> ExecutionImpl::write(std::string_view data, bool close) {
    const std::scoped_lock lock(input_.mutex);
    return runtime::write_in_pieces(id_, data, close, [this](const v1::WriteRequest& request) {
        return call<v1::Empty>(input_, "Write", request);
    });
}

Result<ExitStatus> ExecutionImpl::wait() {
    const std::scoped_lock lock(wait_.mutex);
    if (exit_) return *exit_;
    v1::ExecutionId id;
    id.set_id(id_);
    auto status = call<v1::ExitStatus>(wait_, "Wait", id);
    if (!status.ok()) {
        exit_ = TRY(status_of_ended_box(std::move(status).error()));
        return *exit_;
    }
    exit_ = runtime::from_wire(*status);
    return *exit_;
}

// How the main process ended, from the box's exit record; `error` when that is not known.
Result<ExitStatus> ExecutionImpl::status_of_ended_box(Error error) const {
    if (error.code != ErrorCode::kPortal || disconnected_) return error;
    if (is_main())
        if (const auto record = runtime::read_exit_record(box_->folder); record && !record->failed)
            return ExitStatus{.code = record->code, .signal = record->signal};
    return base::make_error(ErrorCode::kStopped, "box '{}' ended before the program did", box_->config.name);
}

Result<void> ExecutionImpl::signal(int number) {
    const std::scoped_lock lock(control_.mutex);
    v1::SignalRequest request;
    request.set_id(id_);
    request.set_signal(number);
    TRY(call<v1::Empty>(control_, "Signal", request));
    return {};
}

Result<void> ExecutionImpl::resize(TerminalSize size) {
    const std::scoped_lock lock(control_.mutex);
    v1::ResizeRequest request;
    request.set_id(id_);
    request.mutable_tty()->set_rows(size.rows);
    request.mutable_tty()->set_cols(size.cols);
    TRY(call<v1::Empty>(control_, "Resize", request));
    return {};
}

const std::string& Execution::id() const {
    return impl_->id();
}
Result<std::string> Execution::read(Stream stream, size_t max_bytes) {
    return impl_->read(stream, max_bytes);
}
Result<void> Execution::write(std::string_view data) {
    return impl_->write(data, false);
}
Result<void> Execution::close_stdin() {
    return impl_->write({}, true);
}
Result<ExitStatus> Execution::wait() {
    return impl_->wait();
}
Result<void> Execution::signal(int number) {
    return impl_->signal(number);
}
Result<void> Execution::kill() {
    return impl_->signal(SIGKILL);
}
Result<void> Execution::resize(TerminalSize size) {
    return impl_->resize(size);
}
void Execution::disconnect() {
    impl_->disconnect();
}

namespace runtime {

ExitStatus from_wire(const v1::ExitStatus& status) {
    return {status.code(), status.signal(), status.timed_out(), status.oom_killed()};
}

Result<Execution> start_execution(std::shared_ptr<const BoxImpl> box, const Command& command) {
    if (command.argv.empty() || command.argv.front().empty())
        return base::make_error(ErrorCode::kInvalidArgument, "no program to run in box '{}'",
                                box->config.name);
    TRY(check_environment(command.env));
    Connection connection = TRY(running_or_started(*box));
    v1::StartRequest request;
    request.set_id(base::random_id(16));
    *request.mutable_process() = exec_process(box->config, command);
    // Its output is asked for with it, which spares a way to the box and back.
    v1::ReadRequest output;
    output.set_id(request.id());
    output.set_stream(v1::STDOUT);
    output.set_max_bytes(kFirstRead);
    const uint32_t start = TRY(connection.client.post(kExecutionService, "Start", request));
    const uint32_t first_read = TRY(connection.client.post(kExecutionService, "Read", output));
    TRY(connection.client.take<v1::StartResponse>(start, "Start"));
    auto execution = std::make_shared<ExecutionImpl>(std::move(box), request.id());
    TRY(execution->read_over(std::move(connection.client), first_read));
    return Execution(std::move(execution));
}

// Where the main process's output ends now.
static Result<uint64_t> end_of_log(const BoxImpl& box) {
    rpc::Client client = TRY(connect_client(box.folder));
    v1::ReadLogRequest request;
    request.set_max_bytes(Execution::kMaxChunk);
    for (;;) {
        const auto slice = TRY(client.call<v1::ReadLogResponse>(kBoxService, "ReadLog", request));
        if (slice.next_offset() == request.offset()) return slice.next_offset();
        request.set_offset(slice.next_offset());
    }
}

namespace {

Result<void> check_has_main(const BoxImpl& box) {
    if (box.config.is_job()) return {};
    return base::make_error(ErrorCode::kInvalidState, "box '{}' has no main process to connect to; use exec",
                            box.config.name);
}

}  // namespace

Result<Execution> run_main(const std::shared_ptr<const BoxImpl>& box, const StartOptions& options) {
    TRY(check_has_main(*box));
    auto execution = std::make_shared<ExecutionImpl>(box, std::string(kMainExecution));
    if (!TRY(launch_box(*box, options)))
        return base::make_error(ErrorCode::kInvalidState, "box '{}' is running already; use attach",
                                box->config.name);
    TRY(execution->hold_output());
    // A supervisor that failed waits for those who hold its output.
    TRY(await_box(*box, [&execution] { execution->disconnect(); }));
    return Execution(std::move(execution));
}

Result<Execution> attach_main(const std::shared_ptr<const BoxImpl>& box, bool from_beginning) {
    TRY(check_has_main(*box));
    TRY(running(*box));
    auto execution = std::make_shared<ExecutionImpl>(box, std::string(kMainExecution));
    if (!from_beginning) execution->start_reading_at(TRY(end_of_log(*box)));
    return Execution(std::move(execution));
}

}  // namespace runtime
}  // namespace boxlite
