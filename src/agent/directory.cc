#include "agent/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "agent/root.h"

namespace boxlite::agent {

namespace {

constexpr size_t kMaxDepth = 2048;
constexpr int kEntriesPerTurn = 512;

bool is_dots(const char* name) {
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

// Calls visit(name) until it returns false. Returns 0, or an errno.
template <typename Visit>
int for_each_name(int fd, Visit visit) {
    alignas(dirent64) char buffer[8192];
    for (;;) {
        const ssize_t n = ::getdents64(fd, buffer, sizeof buffer);
        if (n < 0) return errno;
        if (n == 0) return 0;
        for (ssize_t at = 0; at < n;) {
            const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
            at += entry->d_reclen;
            if (!is_dots(entry->d_name) && !visit(entry->d_name)) return 0;
        }
    }
}

// A removal under way: the open directories from the top down to where it works.
class Removal : public std::enable_shared_from_this<Removal> {
  public:
    Removal(base::EventLoop& loop, base::Fd dir, std::string name, std::function<void(Result<void>)> done)
        : loop_(loop), done_(std::move(done)) {
        levels_.push_back({std::move(dir), ""});
        name_ = std::move(name);
    }

    void run() {
        for (budget_ = kEntriesPerTurn; budget_ > 0 && !finished_;) step();
        if (finished_) return done_(std::move(outcome_));
        loop_.post([self = shared_from_this()] { self->run(); });
    }

  private:
    struct Level {
        base::Fd dir;
        std::string name;  // in the level above
    };

    void finish(Result<void> outcome) {
        outcome_ = std::move(outcome);
        finished_ = true;
    }

    // At the top: the one name that was asked for. Below: whatever the innermost directory holds.
    void step() {
        if (levels_.size() == 1) return remove_entry(name_.c_str(), true);
        Level& level = levels_.back();
        bool any = false;
        bool descended = false;
        ::lseek(level.dir.get(), 0, SEEK_SET);
        const int error = for_each_name(level.dir.get(), [&](const char* name) {
            any = true;
            const size_t depth = levels_.size();
            remove_entry(name, false);
            descended = levels_.size() != depth;
            return !descended && !finished_ && --budget_ > 0;
        });
        if (error) return finish(file_error(fmt::format("read the directory '{}'", level.name), error));
        if (!any) leave();
    }

    void remove_entry(const char* name, bool top) {
        const int dir = levels_.back().dir.get();
        if (::unlinkat(dir, name, 0) == 0) {
            if (top) finish({});
            return;
        }
        if (errno == ENOENT && !top) return;
        if (errno != EISDIR) return finish(file_error(fmt::format("remove '{}'", name), errno));
        --budget_;
        if (levels_.size() > kMaxDepth)
            return finish(file_error(fmt::format("remove '{}', which lies too deep", name), ELOOP));
        base::Fd below(::openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!below.valid()) return finish(file_error(fmt::format("open '{}'", name), errno));
        levels_.push_back({std::move(below), name});
    }

    void leave() {
        const std::string name = levels_.back().name;
        levels_.pop_back();
        // Not empty: somebody has put something into it. Then it is entered again.
        if (::unlinkat(levels_.back().dir.get(), name.c_str(), AT_REMOVEDIR) < 0 && errno != ENOTEMPTY &&
            errno != ENOENT)
            return finish(file_error(fmt::format("remove the directory '{}'", name), errno));
        if (levels_.size() == 1) {
            struct stat status;
            if (::fstatat(levels_.back().dir.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) < 0)
                finish({});
        }
    }

    base::EventLoop& loop_;
    std::function<void(Result<void>)> done_;
    std::vector<Level> levels_;
    std::string name_;
    int budget_ = 0;
    bool finished_ = false;
    Result<void> outcome_;
};

}  // namespace

Result<NamePage> list_names(const base::Fd& fd, std::string_view after, size_t limit) {
    NamePage page;
    std::vector<std::string>& heap = page.names;  // its largest name on top
    const int error = for_each_name(fd.get(), [&](const char* name) {
        const std::string_view text(name);
        if (text <= after) return true;
        if (heap.size() == limit) {
            page.more = true;
            if (heap.empty() || text > heap.front()) return true;
            std::pop_heap(heap.begin(), heap.end());
            heap.pop_back();
        }
        heap.emplace_back(text);
        std::push_heap(heap.begin(), heap.end());
        return true;
    });
    if (error) return file_error("read a directory", error);
    std::sort_heap(heap.begin(), heap.end());
    return page;
}

void remove_recursively(base::EventLoop& loop, base::Fd dir, std::string name,
                        std::function<void(Result<void>)> done) {
    std::make_shared<Removal>(loop, std::move(dir), std::move(name), std::move(done))->run();
}

}  // namespace boxlite::agent
