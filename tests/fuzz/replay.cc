// Runs a fuzz target without libFuzzer.
//   NAME_fuzz_test RUNS   its seeds, then RUNS mutations of them: the same ones each time
//   NAME_fuzz_test FILE   one input, with a crash left to the debugger
// A crash, a run of more than a minute or a process that grows ends it with the input in
// NAME_fuzz_test.input.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <random>

#include "base/file.h"
#include "base/log.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace boxlite;

constexpr unsigned kSecondsPerRun = 60;
constexpr long kMaxResidentKiB = 512 << 10;
constexpr size_t kMaxInput = 256 << 10;

class Mutator {
  public:
    explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

    std::string next() {
        std::string input = seeds_[below(seeds_.size())];
        for (size_t changes = 1 + below(6); changes > 0; --changes) change(input);
        input.resize(std::min(input.size(), kMaxInput));
        return input;
    }

  private:
    size_t below(size_t n) { return engine_() % n; }

    // Numbers at the edges of their types, and of sizes.
    template <typename T>
    void overwrite(std::string& input, size_t at) {
        static constexpr uint64_t kEdges[] = {0,          1,          2,          7,       0x7f,
                                              0x80,       0xff,       0x100,      0x7fff,  0x8000,
                                              0xffff,     0x10000,    1 << 20,    1 << 30, 1u << 31,
                                              0xfffffff0, 0xffffffff, 1ull << 32, ~0ull,   ~0ull >> 1};
        T value = static_cast<T>(kEdges[below(std::size(kEdges))]);
        if (below(4) == 0) value = static_cast<T>(value - 1);
        if (at + sizeof value <= input.size()) std::memcpy(&input[at], &value, sizeof value);
    }

    void change(std::string& input) {
        const size_t at = input.empty() ? 0 : below(input.size());
        switch (input.empty() ? 5 : below(9)) {
            case 0:
                input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
                break;
            case 1:
                input[at] = static_cast<char>(below(256));
                break;
            case 2:
                overwrite<uint16_t>(input, at);
                break;
            case 3:
                overwrite<uint32_t>(input, at / 4 * 4);
                break;
            case 4:
                overwrite<uint64_t>(input, at / 8 * 8);
                break;
            case 5: {  // a piece of another seed
                const std::string& other = seeds_[below(seeds_.size())];
                const size_t from = below(other.size() + 1);
                input.insert(at, other, from, below(other.size() - from + 1));
                break;
            }
            case 6:
                input.erase(at, 1 + below(64));
                break;
            case 7:
                input.insert(at, input.substr(at, 1 + below(64)));
                break;
            default:
                if (below(4) == 0) input.resize(at);
        }
    }

    std::vector<std::string> seeds_;
    std::mt19937_64 engine_{20240229};
};

const std::string* current_input;
char input_path[256];

[[noreturn]] void report(const char* what) {
    const int fd = ::open(input_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    (void)!::write(fd, current_input->data(), current_input->size());
    for (const char* part : {what, "; the input is in ", static_cast<const char*>(input_path), "\n"})
        (void)!::write(STDERR_FILENO, part, std::strlen(part));
    ::_exit(1);
}

void on_signal(int signal) {
    report(signal == SIGALRM ? "a run does not end" : "a run crashed");
}

void run(const std::string& input) {
    current_input = &input;
    ::alarm(kSecondsPerRun);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
    ::alarm(0);
    rusage usage{};
    if (::getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > kMaxResidentKiB)
        report("the process grew");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return std::fprintf(stderr, "usage: %s RUNS|FILE\n", argv[0]), 2;
    const std::string_view argument = argv[1], program = argv[0];
    std::snprintf(input_path, sizeof input_path, "%s.input", program.substr(program.rfind('/') + 1).data());
    ::signal(SIGPIPE, SIG_IGN);  // as the programs do
    (void)base::log_to("", "fuzz", base::LogLevel::kError, base::LogLevel::kError);

    size_t runs = 0;
    const auto [end, error] = std::from_chars(argument.begin(), argument.end(), runs);
    if (error != std::errc{} || end != argument.end()) {
        const auto input = base::read_file(argv[1]);
        if (!input.ok()) return std::fprintf(stderr, "%s\n", input.error().message.c_str()), 2;
        run(*input);
        return 0;
    }
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM}) ::signal(signal, on_signal);
    const std::vector<std::string> seeds = fuzz::seeds();
    for (const std::string& seed : seeds) run(seed);
    Mutator mutator(seeds);
    for (size_t i = 0; i < runs; ++i) run(mutator.next());
    return 0;
}
