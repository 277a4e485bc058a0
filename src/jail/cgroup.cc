#include "jail/cgroup.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

namespace boxlite::jail {

namespace {

using base::make_error;

constexpr std::chrono::milliseconds kRemoveBudget{2000};
constexpr std::chrono::milliseconds kRemovePause{5};

struct Mount {
    std::string root;    // of the hierarchy, that is mounted
    std::string folder;  // where
    std::string type;    // cgroup2 or cgroup
    std::string options;
};

std::vector<Mount> cgroup_mounts() {
    std::vector<Mount> mounts;
    auto content = base::read_file("/proc/self/mountinfo");
    if (!content.ok()) return mounts;
    std::istringstream lines(*content);
    for (std::string line; std::getline(lines, line);) {
        const size_t dash = line.find(" - ");
        if (dash == std::string::npos) continue;
        std::istringstream left(line.substr(0, dash)), right(line.substr(dash + 3));
        std::string skip;
        Mount mount;
        left >> skip >> skip >> skip >> mount.root >> mount.folder;
        right >> mount.type >> skip >> mount.options;
        if (mount.type == "cgroup2" || mount.type == "cgroup") mounts.push_back(std::move(mount));
    }
    return mounts;
}

bool has_word(const std::string& list, const std::string& word) {
    return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

// This process's path in the hierarchy of a v1 controller, or of v2 when `controller` is empty.
std::optional<std::string> own_path(const std::string& controller) {
    auto content = base::read_file("/proc/self/cgroup");
    if (!content.ok()) return std::nullopt;
    std::istringstream lines(*content);
    for (std::string line; std::getline(lines, line);) {
        const size_t first = line.find(':');
        const size_t second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string names = line.substr(first + 1, second - first - 1);
        if (controller.empty() ? names.empty() : has_word(names, controller)) return line.substr(second + 1);
    }
    return std::nullopt;
}

// Where a hierarchy path is in the file system; nullopt when the mount does not show it.
std::optional<std::string> folder_of(const Mount& mount, std::string path) {
    if (mount.root != "/") {
        if (!path.starts_with(mount.root)) return std::nullopt;
        path = path.substr(mount.root.size());
    }
    while (!path.empty() && path.back() == '/') path.pop_back();
    return mount.folder + path;
}

Result<void> write_value(const std::string& file, const std::string& value) {
    const base::Fd fd = TRY(base::open_file(file, O_WRONLY | O_NOFOLLOW));
    if (::write(fd.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
        return base::errno_error(ErrorCode::kUnsupported, "write '{}' to '{}'", value, file);
    return {};
}

Result<void> make_folder(const std::string& path, const base::Fd& note) {
    if (note.valid()) TRY(base::write_all(note.get(), base::as_bytes(path + "\n")));
    if (::mkdir(path.c_str(), 0755) < 0)
        return base::errno_error(ErrorCode::kUnsupported, "make cgroup '{}'", path);
    return {};
}

struct Limit {
    const char* what;  // for the report
    const char* controller;
    const char* v2_file;
    const char* v1_file;
    uint64_t value;
};

std::vector<Limit> wanted(const CgroupLimits& limits) {
    std::vector<Limit> all = {
        {"memory limit", "memory", "memory.max", "memory.limit_in_bytes", limits.memory_max},
        {"process limit", "pids", "pids.max", "pids.max", limits.pids_max},
    };
    std::erase_if(all, [](const Limit& limit) { return limit.value == 0; });
    return all;
}

// A child of `parent` with every limit.
Result<std::string> make_v2(const std::string& parent, const std::string& name, const base::Fd& note,
                            const std::vector<Limit>& limits) {
    const std::string folder = parent + "/" + name;
    TRY(make_folder(folder, note));
    const auto fill = [&]() -> Result<void> {
        for (const Limit& limit : limits) {
            const std::string file = folder + "/" + limit.v2_file;
            // A group with processes of its own cannot hand controllers to its children.
            if (!base::path_exists(file))
                TRY(write_value(parent + "/cgroup.subtree_control", fmt::format("+{}", limit.controller)));
            TRY(write_value(file, std::to_string(limit.value)));
        }
        // A machine without one of its processes is no machine.
        (void)write_value(folder + "/memory.oom.group", "1");
        return {};
    };
    if (auto filled = fill(); !filled.ok()) {
        ::rmdir(folder.c_str());
        return std::move(filled).error();
    }
    return folder;
}

// Where a cgroup may be made: in our own, else in one above it.
std::vector<std::string> v2_parents(const std::vector<Mount>& mounts) {
    std::vector<std::string> parents;
    const auto path = own_path("");
    for (const Mount& mount : mounts) {
        const auto own = mount.type == "cgroup2" && path ? folder_of(mount, *path) : std::nullopt;
        if (!own) continue;
        for (std::string folder = *own; folder.size() >= mount.folder.size();
             folder.resize(folder.rfind('/')))
            parents.push_back(folder);
    }
    return parents;
}

std::optional<std::string> v1_parent(const std::vector<Mount>& mounts, const std::string& controller) {
    const auto path = own_path(controller);
    for (const Mount& mount : mounts) {
        if (mount.type != "cgroup" || !has_word(mount.options, controller)) continue;
        if (auto own = path ? folder_of(mount, *path) : std::nullopt) return own;
    }
    return std::nullopt;
}

// The error is that of our own cgroup, which tells most.
Result<std::string> find_v2(const std::vector<Mount>& mounts, const std::string& name, const base::Fd& note,
                            const std::vector<Limit>& limits) {
    std::optional<Error> first;
    for (const std::string& parent : v2_parents(mounts)) {
        auto made = make_v2(parent, name, note, limits);
        if (made.ok()) return made;
        if (!first) first = made.error();
    }
    return first ? *first : make_error(ErrorCode::kUnsupported, "no cgroup v2 is mounted");
}

Result<std::string> make_v1(const std::vector<Mount>& mounts, const std::string& name, const base::Fd& note,
                            const Limit& limit) {
    const auto parent = v1_parent(mounts, limit.controller);
    if (!parent)
        return make_error(ErrorCode::kUnsupported, "the host has no '{}' controller for this process",
                          limit.controller);
    std::string folder = *parent + "/" + name;
    TRY(make_folder(folder, note));
    if (auto set = write_value(folder + "/" + limit.v1_file, std::to_string(limit.value)); !set.ok()) {
        ::rmdir(folder.c_str());
        return std::move(set).error();
    }
    return folder;
}

bool plain_name(const std::string& name) {
    return !name.empty() && std::ranges::all_of(name, [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
    });
}

void kill_all(const std::string& folder) {
    if (write_value(folder + "/cgroup.kill", "1").ok()) return;
    auto pids = base::read_file(folder + "/cgroup.procs");
    if (!pids.ok()) return;
    std::istringstream numbers(*pids);
    for (pid_t pid; numbers >> pid;)
        if (pid > 0) ::kill(pid, SIGKILL);
}

bool is_cgroup(const std::string& folder) {
    const auto fd = base::open_file(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    struct statfs fs;
    return fd.ok() && ::fstatfs(fd->get(), &fs) == 0 &&
           (fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC);
}

void end_and_remove(const std::string& folder) {
    kill_all(folder);
    // Killed processes leave it a moment later; v1 has no event for that.
    const base::Deadline deadline(kRemoveBudget);
    while (::rmdir(folder.c_str()) < 0 && errno == EBUSY && !deadline.passed()) {
        std::this_thread::sleep_for(kRemovePause);
        kill_all(folder);
    }
    if (base::path_exists(folder)) base::log_warn("a cgroup could not be removed", {{"path", folder}});
}

}  // namespace

std::unique_ptr<Cgroup> Cgroup::create(const CgroupLimits& limits, JailReport& report) {
    if (limits.name.empty()) return nullptr;
    const std::vector<Limit> all = wanted(limits);
    std::unique_ptr<Cgroup> group(new Cgroup);
    if (!plain_name(limits.name)) {
        report.missing.push_back({"cgroup", fmt::format("'{}' cannot be the name of one", limits.name)});
        return nullptr;
    }
    const std::vector<Mount> mounts = cgroup_mounts();
    base::Fd note;
    if (!limits.note.empty()) {
        auto file = base::open_file(limits.note, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
        if (!file.ok()) {
            report.missing.push_back({"cgroup", file.error().message});
            return nullptr;
        }
        note = std::move(file).value();
    }
    auto v2 = find_v2(mounts, limits.name, note, all);
    if (v2.ok()) {
        group->folders_.push_back(*v2);
        for (const Limit& limit : all) report.applied.emplace_back(limit.what);
        return group;
    }
    for (const Limit& limit : all) {
        auto v1 = make_v1(mounts, limits.name, note, limit);
        if (v1.ok()) {
            group->folders_.push_back(*v1);
            report.applied.emplace_back(limit.what);
        } else {
            report.missing.push_back({limit.what, v2.error().message + "; " + v1.error().message});
        }
    }
    return group->folders_.empty() ? nullptr : std::move(group);
}

void Cgroup::remove_stale(const std::string& name, const std::vector<std::string>& folders) {
    if (!plain_name(name)) return;
    for (const std::string& folder : folders)
        if (folder.ends_with("/" + name) && is_cgroup(folder)) end_and_remove(folder);
}

Result<void> Cgroup::add(pid_t pid) {
    for (const std::string& folder : folders_)
        TRY(write_value(folder + "/cgroup.procs", std::to_string(pid)));
    return {};
}

Cgroup::~Cgroup() {
    for (const std::string& folder : folders_) end_and_remove(folder);
}

}  // namespace boxlite::jail
