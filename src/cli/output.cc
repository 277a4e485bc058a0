#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/fd.h"

namespace boxlite::cli {

namespace {

constexpr size_t kColumnGap = 3;

// Characters of UTF-8 text: continuation bytes do not count.
size_t width(std::string_view text) {
    return static_cast<size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Boxes' names and images' labels may hold anything: a terminal must not obey it.
std::string printable(std::string_view text) {
    std::string result;
    for (const char c : text) result += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? '?' : c;
    return result;
}

}  // namespace

bool write_out(std::string_view text) {
    return base::write_all(STDOUT_FILENO, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}).ok();
}

void print_note(std::string_view message) {
    const std::string line = std::string(message) + "\n";
    (void)base::write_all(STDERR_FILENO, {reinterpret_cast<const uint8_t*>(line.data()), line.size()});
}

void print_error(std::string_view message) {
    print_note(fmt::format("boxlite: {}", message));
}

std::string human_bytes(uint64_t bytes) {
    constexpr std::array<std::string_view, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
    auto amount = static_cast<double>(bytes);
    size_t unit = 0;
    while (amount >= 999.5 && unit + 1 < kUnits.size()) {
        amount /= 1000;
        ++unit;
    }
    if (unit == 0) return fmt::format("{}B", bytes);
    return fmt::format("{:.{}f}{}", amount, amount < 9.995 ? 2 : amount < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string human_age(int64_t ns, int64_t now_ns) {
    if (ns == 0) return {};
    const int64_t seconds = std::max<int64_t>(0, (now_ns - ns) / 1'000'000'000);
    struct Step {
        int64_t seconds;
        std::string_view name;
    };
    constexpr std::array<Step, 6> kSteps = {{{31'536'000, "year"},
                                             {2'592'000, "month"},
                                             {86'400, "day"},
                                             {3'600, "hour"},
                                             {60, "minute"},
                                             {1, "second"}}};
    for (const Step& step : kSteps) {
        const int64_t count = seconds / step.seconds;
        if (count > 0) return fmt::format("{} {}{} ago", count, step.name, count == 1 ? "" : "s");
    }
    return "just now";
}

std::string format_table(const std::vector<std::string>& headings,
                         const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::vector<std::string>> lines;
    if (!headings.empty()) lines.push_back(headings);
    for (const auto& row : rows) {
        lines.emplace_back();
        for (const std::string& cell : row) lines.back().push_back(printable(cell));
    }
    std::vector<size_t> widths;
    for (const auto& line : lines) {
        widths.resize(std::max(widths.size(), line.size()));
        for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
    }
    std::string out;
    for (const auto& line : lines) {
        for (size_t i = 0; i < line.size(); ++i) {
            out += line[i];
            if (i + 1 < line.size()) out.append(widths[i] - width(line[i]) + kColumnGap, ' ');
        }
        out.erase(out.find_last_not_of(' ') + 1);
        out += '\n';
    }
    return out;
}

std::string align_tabs(const std::vector<std::string>& lines) {
    std::vector<std::vector<std::string>> rows;
    for (const std::string& line : lines) {
        rows.emplace_back();
        size_t start = 0;
        for (size_t tab; (tab = line.find('\t', start)) != std::string::npos; start = tab + 1)
            rows.back().push_back(line.substr(start, tab - start));
        rows.back().push_back(line.substr(start));
    }
    return format_table({}, rows);
}

}  // namespace boxlite::cli
