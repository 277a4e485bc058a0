// What a program that links the library waits for, in milliseconds, one JSON object on standard output.
//
//   boxlite_latency HOME IMAGE ROUNDS
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "boxlite/runtime.h"

namespace {

using boxlite::Execution;
using boxlite::Stream;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

template <typename T>
T must(boxlite::Result<T> result) {
    if (!result.ok()) {
        std::fprintf(stderr, "latency: %s\n", result.error().message.c_str());
        std::exit(1);
    }
    return std::move(*result);
}
void must(const boxlite::Result<void>& result) {
    if (result.ok()) return;
    std::fprintf(stderr, "latency: %s\n", result.error().message.c_str());
    std::exit(1);
}

// Until the first byte of `echo`.
double first_byte(boxlite::Box& box, Clock::time_point start) {
    Execution run = must(box.exec({.argv = {"echo", "x"}}));
    const std::string piece = must(run.read(Stream::kStdout));
    const double time = milliseconds_since(start);
    if (piece != "x\n") std::exit(1);
    (void)must(run.wait());
    return time;
}

void print(const char* name, const std::vector<double>& times, const char* end) {
    std::printf("\"%s\": [", name);
    for (size_t i = 0; i < times.size(); ++i) std::printf("%s%.3f", i ? ", " : "", times[i]);
    std::printf("]%s", end);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const int rounds = std::atoi(argv[3]);
    boxlite::Runtime runtime = must(boxlite::Runtime::open({.home = argv[1]}));
    std::vector<double> create, exec, boot;
    for (int i = 0; i < rounds; ++i) {
        const auto start = Clock::now();
        boxlite::Box box = must(runtime.create({.image = argv[2]}));
        create.push_back(first_byte(box, start));
        boot.push_back(must(box.info()).boot_ms);
        must(runtime.remove(box.id(), true));
    }
    boxlite::Box box = must(runtime.create({.image = argv[2]}));
    (void)first_byte(box, Clock::now());
    for (int i = 0; i < rounds * 5; ++i) exec.push_back(first_byte(box, Clock::now()));
    must(runtime.remove(box.id(), true));
    std::printf("{");
    print("create", create, ", ");
    print("boot", boot, ", ");
    print("exec", exec, "}\n");
}
