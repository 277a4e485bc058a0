// The output of the main process: pulled from the agent into the log, and from the log to any number of
// readers. A reader that holds (see ReadLogRequest.hold) slows the process down instead of losing output;
// the log file is the buffer in between, so nobody's memory grows.
// Everything on the supervisor's loop thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "rpc/box.pb.h"
#include "rpc/channel.h"
#include "shim/output_log.h"

namespace boxlite::shim {

class MainOutput {
  public:
    explicit MainOutput(OutputLog log) : log_(std::move(log)) {}

    // Starts pulling. `terminal`: there is no stderr. `agent` outlives this.
    void start(std::shared_ptr<rpc::Channel> agent, bool terminal);
    // No more will come: what is parked is answered with the end.
    void end();

    // Answers now or when there is output. `connection` identifies a reader that holds.
    void read(const v1::ReadLogRequest& request, const std::shared_ptr<rpc::Channel>& connection,
              rpc::Responder responder);
    void forget(const rpc::Channel* connection);

    // Whether every reader that holds has seen the end.
    bool all_seen() const;
    bool ended() const { return ended_; }
    // Whether any reader was told of the end.
    bool read_to_end() const { return read_to_end_; }
    // Called once, when the process's streams have ended and all is in the log.
    void on_end(std::function<void()> callback) { on_end_ = std::move(callback); }

  private:
    struct Source {
        v1::Stream stream;
        bool pulling = false;
        bool eof = false;
    };
    struct Parked {
        v1::ReadLogRequest request;
        std::weak_ptr<rpc::Channel> connection;
        rpc::Responder responder;
    };

    void pull();
    void take(Source& source, const Result<std::string_view>& answer);
    void wake();
    bool held() const;

    OutputLog log_;
    std::shared_ptr<rpc::Channel> agent_;
    std::vector<Source> sources_;
    std::vector<Parked> parked_;
    std::map<const rpc::Channel*, uint64_t> holders_;  // position up to which each has taken the log
    bool ended_ = false;
    bool read_to_end_ = false;
    std::optional<Error> lost_;  // why the log is not complete; what readers find at its end
    std::function<void()> on_end_;
};

}  // namespace boxlite::shim
