#include <signal.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/describe.h"

namespace boxlite::cli {

namespace {

constexpr size_t kMaxConsole = size_t{64} << 20;

// Puts the time before each line, where a line may come in several pieces.
class LineStamper {
  public:
    std::string stamp(const LogEntry& entry) {
        bool& at_start = at_start_[entry.stream == Stream::kStderr];
        std::string out;
        for (size_t start = 0; start < entry.data.size();) {
            const size_t newline = entry.data.find('\n', start);
            const size_t end = newline == std::string::npos ? entry.data.size() : newline + 1;
            if (at_start) out += time_text(entry.time) + " ";
            out.append(entry.data, start, end - start);
            at_start = newline != std::string::npos;
            start = end;
        }
        return out;
    }

  private:
    bool at_start_[2] = {true, true};
};

Result<int> show_console(const Box& box) {
    const BoxInfo info = TRY(box.info());
    const std::string text = TRY(base::read_file(info.folder + "/logs/console.log", kMaxConsole));
    return write_out(text) ? 0 : kExitBrokenPipe;
}

Result<int> logs(Context& context, const Arguments& arguments) {
    LogOptions options;
    options.follow = arguments.enabled("follow");
    if (arguments.has("tail") && arguments.value("tail") != "all")
        options.tail = TRY(arguments.number("tail", 0, 0, UINT64_MAX));
    // 0 is all, as it always was here.
    if (options.tail == 0u) options.tail.reset();
    const Runtime runtime = TRY(context.runtime());
    Box box = TRY(runtime.get(arguments.operands.front()));
    if (arguments.enabled("console")) return show_console(box);
    LineStamper stamper;
    bool broken = false;
    const bool stamps = arguments.enabled("timestamps");
    TRY(box.logs(options, [&](const LogEntry& entry) {
        if (entry.missed > 0)
            print_error(fmt::format("about {} bytes of output were missed here: the log no longer has them",
                                    entry.missed));
        const std::string text = stamps ? stamper.stamp(entry) : entry.data;
        const int fd = entry.stream == Stream::kStderr ? STDERR_FILENO : STDOUT_FILENO;
        broken = !base::write_all(fd, base::as_bytes(text)).ok();
        return !broken;
    }));
    return broken ? kExitBrokenPipe : 0;
}

}  // namespace

std::vector<Command> log_commands() {
    return {{.name = "logs",
             .operands = "BOX",
             .summary = "Show the output of a box's main program",
             .flags = {{'f', "follow", "", "go on until the program ends"},
                       {'n', "tail", "N", "only the last lines; 0 or all: everything"},
                       {'t', "timestamps", "", "put the time before each line"},
                       {0, "console", "", "the messages of the box's kernel instead"}},
             .least = 1,
             .most = 1,
             .run = logs,
             .operand_kind = "box"}};
}

}  // namespace boxlite::cli
