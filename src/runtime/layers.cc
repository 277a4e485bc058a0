#include "runtime/layers.h"

#include <unistd.h>

#include <set>

#include "base/file.h"
#include "base/id.h"
#include "base/log.h"
#include "disk/qcow2_flatten.h"
#include "runtime/listing.h"
#include "runtime/snapshot_files.h"

namespace boxlite::runtime {

namespace {

constexpr std::string_view kSuffix = ".qcow2";
// As a disk in a box's folder names a layer, and a layer another one: their folders are as deep.
constexpr std::string_view kFromBox = "../../bases/layers/";

// Notes `layer` and every layer below it. False when a header on the way could not be read.
bool note_chain(const Home& home, std::optional<disk::Backing> backing, std::set<std::string>& needed) {
    while (backing && backing->format == disk::ImageFormat::kQcow2) {
        const std::string name = backing->path.substr(backing->path.rfind('/') + 1);
        if (!needed.insert(name).second) return true;
        auto below = disk::qcow2_info(layer_path(home, name));
        if (!below.ok()) return false;
        backing = std::move(below->backing);
    }
    return true;
}

// Besides the layers there are the one that a disk becomes, and the image below all.
constexpr unsigned kMostBelow = disk::kMaxBackingDepth - 2;
// From this many on, a layer is written anew. A running box stands on those that were there when it last was
// captured.
constexpr unsigned kManyBelow = 12;

// How many the disk or layer at `path` stands on, counted up to `most`.
Result<unsigned> layers_below(const Home& home, std::string path, unsigned most) {
    for (unsigned below = 0; below < most; ++below) {
        const auto info = TRY(disk::qcow2_info(path));
        if (!info.backing || info.backing->format != disk::ImageFormat::kQcow2) return below;
        path = layer_path(home, info.backing->path.substr(info.backing->path.rfind('/') + 1));
    }
    return most;
}

Result<void> write_anew(const Home& home, const std::string& layer) {
    const std::string path = layer_path(home, layer);
    if (TRY(layers_below(home, path, kManyBelow)) < kManyBelow) return {};
    const std::string fresh = layer_path(home, new_layer_name());
    TRY(disk::flatten_qcow2(path, fresh, {home.bases()}));
    if (::rename(fresh.c_str(), path.c_str()) < 0)
        return base::errno_error(ErrorCode::kStorage, "put '{}' in its place", path);
    return base::sync_directory(home.layers());
}

}  // namespace

std::string new_layer_name() {
    return base::random_id(20) + std::string(kSuffix);
}

std::string layer_path(const Home& home, const std::string& layer) {
    return home.layers() + "/" + layer;
}

Result<void> check_depth(const Home& home, const std::string& disk) {
    if (TRY(layers_below(home, disk, kMostBelow + 1)) <= kMostBelow) return {};
    return base::make_error(ErrorCode::kResourceExhausted,
                            "the disk stands on {} earlier states already, which is the most; copy the files "
                            "into a new box to go on",
                            kMostBelow + 1);
}

Result<void> freeze_disk(const Home& home, const std::string& disk, const std::string& layer) {
    const std::string fresh = disk + ".new";
    ::unlink(fresh.c_str());  // of an attempt that failed
    const std::string kept = layer_path(home, layer);
    if (::link(disk.c_str(), kept.c_str()) < 0)
        return base::errno_error(ErrorCode::kStorage, "keep '{}' as a layer", disk);
    if (auto made = make_disk_on(home, layer, fresh); !made.ok()) {
        ::unlink(kept.c_str());
        return made;
    }
    if (::rename(fresh.c_str(), disk.c_str()) < 0)
        return base::errno_error(ErrorCode::kStorage, "put a new disk in the place of '{}'", disk);
    return base::sync_directory(disk.substr(0, disk.rfind('/')));
}

Result<void> make_disk_on(const Home& home, const std::string& layer, const std::string& path) {
    TRY(check_depth(home, layer_path(home, layer)));
    disk::Qcow2CreateOptions options;
    options.virtual_size = TRY(disk::qcow2_info(layer_path(home, layer))).virtual_size;
    options.backing = disk::Backing{std::string(kFromBox) + layer, disk::ImageFormat::kQcow2};
    return disk::Qcow2::create(path, options);
}

void shorten_chain(const Home& home, const std::string& layer) {
    if (const auto written = write_anew(home, layer); !written.ok())
        base::log_warn("a layer still stands on many",
                       {{"layer", layer}, {"error", written.error().message}});
}

void collect_unused_layers(const Home& home) {
    const std::vector<std::string> layers = names_in(home.layers());
    if (layers.empty()) return;
    std::set<std::string> needed;
    for (const std::string& id : names_in(home.boxes())) {
        const BoxFolder box = home.box(id);
        if (base::path_exists(box.disk())) {
            auto disk = disk::qcow2_info(box.disk());
            // Better too much than what something damaged may still need.
            if (!disk.ok() || !note_chain(home, std::move(disk->backing), needed)) return;
        }
        const auto kept = layers_of_snapshots(box);
        if (!kept.ok()) return;
        for (const std::string& layer : *kept)
            if (!note_chain(home, disk::Backing{layer, disk::ImageFormat::kQcow2}, needed)) return;
    }
    for (const std::string& layer : layers) {
        if (needed.contains(layer)) continue;
        base::log_info("layer removed", {{"layer", layer}});
        ::unlink(layer_path(home, layer).c_str());
    }
}

}  // namespace boxlite::runtime
