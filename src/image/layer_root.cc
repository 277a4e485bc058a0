#include "image/layer_root.h"

#include <sys/stat.h>

#include <vector>

#include "base/text.h"

namespace boxlite::image {

namespace {

constexpr size_t kMaxPathBytes = 4096;
constexpr int kMaxLinks = 255;  // as the OCI tools' path resolution

// Pushes the components of `path` so that the first is popped first.
void push_components(std::string_view path, std::vector<std::string>& todo) {
    std::vector<std::string> components;
    while (!path.empty()) {
        const size_t slash = path.find('/');
        const std::string_view component = path.substr(0, slash);
        if (!component.empty() && component != ".") components.emplace_back(component);
        path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
    }
    todo.insert(todo.end(), components.rbegin(), components.rend());
}

Result<void> check_components(std::string_view path, const std::vector<std::string>& components) {
    if (path.size() > kMaxPathBytes)
        return base::make_error(ErrorCode::kImage, "the layer's path '{}' is longer than {} bytes",
                                base::printable(path), kMaxPathBytes);
    if (path.empty()) return base::make_error(ErrorCode::kImage, "the layer has an entry without a path");
    for (const std::string& component : components) {
        if (component == "..")
            return base::make_error(ErrorCode::kImage, "the layer's path '{}' contains '..'",
                                    base::printable(path));
        if (component.size() > disk::kMaxNameBytes)
            return base::make_error(ErrorCode::kImage,
                                    "the layer's path '{}' has a name longer than {} bytes",
                                    base::printable(path), disk::kMaxNameBytes);
        if (component.find('\0') != std::string::npos)
            return base::make_error(ErrorCode::kImage, "the layer's path '{}' contains a NUL",
                                    base::printable(path));
    }
    return {};
}

}  // namespace

struct ImageRoot::Walk {
    std::string_view path;          // for messages
    std::vector<std::string> todo;  // components, next one last
    int links = 0;
};

Result<RootPlace> ImageRoot::resolve_parent(std::string_view path) {
    auto place = TRY(resolve(path, true));
    if (!place) return base::make_error(ErrorCode::kInternal, "'{}' was not made", base::printable(path));
    return std::move(*place);
}

Result<std::optional<RootPlace>> ImageRoot::find_parent(std::string_view path) {
    return resolve(path, false);
}

Result<std::optional<RootPlace>> ImageRoot::resolve(std::string_view path, bool make) {
    Walk walk{path, {}, 0};
    push_components(path, walk.todo);
    TRY(check_components(path, walk.todo));
    RootPlace place;
    if (walk.todo.empty()) return std::optional(place);
    place.name = std::move(walk.todo.front());
    walk.todo.erase(walk.todo.begin());
    while (!walk.todo.empty()) {
        const std::string name = std::move(walk.todo.back());
        walk.todo.pop_back();
        const auto entered = TRY(enter(place.directory, name, make, walk));
        if (!entered) return std::optional<RootPlace>();
        place.directory = *entered;
    }
    return std::optional(std::move(place));
}

// One step down, or sideways through a symbolic link: then its target is put before what is still to do.
Result<std::optional<disk::Ino>> ImageRoot::enter(disk::Ino directory, const std::string& name, bool make,
                                                  Walk& walk) {
    if (name == "..") return std::optional(writer_.parent(directory));  // only from a link's target
    const disk::DirectoryEntry* entry = writer_.find(directory, name);
    if (!entry) {
        if (!make) return std::optional<disk::Ino>();
        disk::Attributes attributes;
        attributes.mode = 0755;
        attributes.mtime = attributes.atime = {timestamp_, 0};
        return std::optional(
            TRY_CONTEXT(writer_.add_directory(directory, name, attributes), base::printable(walk.path)));
    }
    if (writer_.is_directory(entry->ino)) return std::optional(entry->ino);
    if (!S_ISLNK(writer_.mode(entry->ino)) && !make) return std::optional<disk::Ino>();
    if (!S_ISLNK(writer_.mode(entry->ino)))
        return base::make_error(ErrorCode::kImage,
                                "the layer's path '{}' leads through '{}', which is no directory",
                                base::printable(walk.path), base::printable(name));
    if (++walk.links > kMaxLinks)
        return base::make_error(ErrorCode::kImage,
                                "the layer's path '{}' leads through too many symbolic links",
                                base::printable(walk.path));
    const std::string_view target = writer_.symlink_target(entry->ino);
    push_components(target, walk.todo);
    return std::optional(target.front() == '/' ? disk::kRootIno : directory);
}

void ImageRoot::claim(const RootPlace& place) {
    if (!place.name.empty()) writer_.find(place.directory, place.name)->tag = layer_;
    for (disk::Ino directory = place.directory; directory != disk::kRootIno;
         directory = writer_.parent(directory)) {
        disk::DirectoryEntry* entry = writer_.entry_of(directory);
        if (entry->tag == layer_) return;  // and so are those above
        entry->tag = layer_;
    }
}

Result<void> ImageRoot::remove_lower(const RootPlace& place) {
    const disk::DirectoryEntry* entry = writer_.find(place.directory, place.name);
    if (!entry) return {};
    if (entry->tag != layer_) return writer_.remove(place.directory, place.name);
    if (writer_.is_directory(entry->ino)) return remove_lower_content(entry->ino);
    return {};
}

Result<void> ImageRoot::remove_lower_content(disk::Ino top) {
    std::vector<disk::Ino> todo = {top};
    while (!todo.empty()) {
        const disk::Ino directory = todo.back();
        todo.pop_back();
        std::vector<std::string> lower;
        for (const auto& [name, entry] : writer_.entries(directory)) {
            if (entry.tag != layer_) {
                lower.push_back(name);
            } else if (writer_.is_directory(entry.ino)) {
                todo.push_back(entry.ino);
            }
        }
        for (const std::string& name : lower) TRY(writer_.remove(directory, name));
    }
    return {};
}

}  // namespace boxlite::image
