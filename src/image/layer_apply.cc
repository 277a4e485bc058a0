#include "image/layer_apply.h"

#include <sys/stat.h>

#include <string_view>

#include "base/text.h"

namespace boxlite::image {

namespace {

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kMetadata = ".wh..wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";

disk::Attributes attributes_of(const TarEntry& entry) {
    disk::Attributes attributes;
    attributes.mode = entry.mode;
    attributes.uid = entry.uid;
    attributes.gid = entry.gid;
    attributes.mtime = entry.mtime;
    attributes.atime = entry.atime;
    attributes.xattrs = entry.xattrs;
    switch (entry.type) {
        case TarType::kCharDevice:
            attributes.mode |= S_IFCHR;
            break;
        case TarType::kBlockDevice:
            attributes.mode |= S_IFBLK;
            break;
        case TarType::kFifo:
            attributes.mode |= S_IFIFO;
            break;
        case TarType::kSymlink:
            attributes.mode = 0777;
            break;  // Linux has no other
        default:
            break;
    }
    return attributes;
}

// What the ext4 writer calls a wrong argument is here a fault of the image.
Error entry_error(Error error, std::string_view path) {
    if (error.code == ErrorCode::kInvalidArgument) error.code = ErrorCode::kImage;
    return std::move(error).with_context(fmt::format("layer entry '{}'", base::printable(path)));
}

class Applier {
  public:
    Applier(ImageRoot& root, TarReader& archive) : root_(root), writer_(root.writer()), archive_(archive) {}

    Result<void> apply(const TarEntry& entry);

  private:
    enum class Special { kNone, kOpaque, kWhiteout, kMetadata };
    static Result<Special> special_kind(std::string_view path);
    Result<void> apply_special(const TarEntry& entry, Special kind);
    Result<void> apply_root(const TarEntry& entry);
    Result<void> apply_hard_link(const TarEntry& entry, const RootPlace& place);
    Result<void> make(const TarEntry& entry, const RootPlace& place);
    Result<void> make_file(const TarEntry& entry, const RootPlace& place);
    Result<void> remove_existing(const RootPlace& place);

    ImageRoot& root_;
    disk::Ext4Writer& writer_;
    TarReader& archive_;
};

// Looks at all components: AUFS kept whole directories under its own names, and a whiteout can be no
// directory.
Result<Applier::Special> Applier::special_kind(std::string_view path) {
    while (!path.empty() && (path.back() == '/' || path.ends_with("/."))) path.remove_suffix(1);
    for (size_t start = 0; start < path.size();) {
        const size_t slash = std::min(path.find('/', start), path.size());
        const std::string_view component = path.substr(start, slash - start);
        const bool last = slash == path.size();
        if (last && component == kOpaque) return Special::kOpaque;
        if (component.starts_with(kMetadata)) return Special::kMetadata;
        if (component.starts_with(kWhiteout)) {
            if (last) return Special::kWhiteout;
            return base::make_error(ErrorCode::kImage, "the path leads through a whiteout");
        }
        start = slash + 1;
    }
    return Special::kNone;
}

Result<void> Applier::apply_special(const TarEntry& entry, Special kind) {
    if (kind == Special::kMetadata) return {};
    auto place = TRY(root_.find_parent(entry.path));
    if (!place) return {};  // then there is nothing to hide
    if (kind == Special::kOpaque) return root_.remove_lower_content(place->directory);
    place->name.erase(0, kWhiteout.size());
    if (place->name.empty() || place->name == "." || place->name == "..")
        return base::make_error(ErrorCode::kImage, "the whiteout names nothing");
    return root_.remove_lower(*place);
}

Result<void> Applier::apply(const TarEntry& entry) {
    const Special kind = TRY(special_kind(entry.path));
    if (kind != Special::kNone) return apply_special(entry, kind);
    const RootPlace place = TRY(root_.resolve_parent(entry.path));
    if (place.name.empty()) return apply_root(entry);
    if (entry.type == TarType::kHardLink) return apply_hard_link(entry, place);
    const disk::DirectoryEntry* existing = writer_.find(place.directory, place.name);
    if (existing && entry.type == TarType::kDirectory && writer_.is_directory(existing->ino)) {
        TRY(writer_.set_attributes(existing->ino, attributes_of(entry)));
    } else {
        TRY(remove_existing(place));
        TRY(make(entry, place));
    }
    root_.claim(place);
    return {};
}

Result<void> Applier::apply_root(const TarEntry& entry) {
    if (entry.type != TarType::kDirectory)
        return base::make_error(ErrorCode::kImage, "the root can only be a directory");
    return writer_.set_attributes(disk::kRootIno, attributes_of(entry));
}

Result<void> Applier::remove_existing(const RootPlace& place) {
    if (!writer_.find(place.directory, place.name)) return {};
    return writer_.remove(place.directory, place.name);
}

Result<void> Applier::apply_hard_link(const TarEntry& entry, const RootPlace& place) {
    TRY(remove_existing(place));  // first: the target may be, or lie in, what has to go
    const auto target = TRY(root_.find_parent(entry.link));
    const disk::DirectoryEntry* found = target ? writer_.find(target->directory, target->name) : nullptr;
    if (!found)
        return base::make_error(ErrorCode::kImage, "hard link to '{}', which does not exist in the image",
                                base::printable(entry.link));
    TRY(writer_.add_link(place.directory, place.name, found->ino));
    root_.claim(place);
    return {};
}

Result<void> Applier::make(const TarEntry& entry, const RootPlace& place) {
    const disk::Attributes attributes = attributes_of(entry);
    switch (entry.type) {
        case TarType::kFile:
            return make_file(entry, place);
        case TarType::kDirectory:
            TRY(writer_.add_directory(place.directory, place.name, attributes));
            return {};
        case TarType::kSymlink:
            TRY(writer_.add_symlink(place.directory, place.name, attributes, entry.link));
            return {};
        case TarType::kCharDevice:
        case TarType::kBlockDevice:
        case TarType::kFifo:
            TRY(writer_.add_special(place.directory, place.name, attributes, entry.major, entry.minor));
            return {};
        case TarType::kHardLink:
            break;
    }
    return base::make_error(ErrorCode::kInternal, "there is no such entry type");
}

Result<void> Applier::make_file(const TarEntry& entry, const RootPlace& place) {
    TRY(writer_.begin_file(place.directory, place.name, attributes_of(entry)));
    for (;;) {
        const TarPiece piece = TRY(archive_.read());
        if (piece.at_end()) break;
        if (piece.hole > 0) {
            TRY(writer_.append_hole(piece.hole));
        } else {
            TRY(writer_.append(piece.data));
        }
    }
    return writer_.end_file();
}

}  // namespace

Result<uint64_t> apply_layer(ImageRoot& root, TarReader& archive, uint64_t max_entries) {
    root.begin_layer();
    Applier applier(root, archive);
    TarEntry entry;
    uint64_t count = 0;
    while (TRY(archive.next(entry))) {
        if (++count > max_entries)
            return base::make_error(ErrorCode::kResourceExhausted,
                                    "the image's layers have more than {} entries", max_entries);
        auto applied = applier.apply(entry);
        if (!applied.ok()) return entry_error(std::move(applied).error(), entry.path);
    }
    return count;
}

}  // namespace boxlite::image
