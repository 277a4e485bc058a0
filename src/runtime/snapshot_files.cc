#include "runtime/snapshot_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/file.h"
#include "image/digest.h"
#include "runtime/listing.h"
#include "runtime/memory_file.h"
#include "runtime/state_store.h"

namespace boxlite::runtime {

namespace {

constexpr int64_t kOldestFormat = 2;
constexpr size_t kMaxRecordBytes = 64 << 10;
constexpr size_t kMaxMachineBytes = 64 << 20;

Error damaged(const std::string& path, const char* what) {
    return base::make_error(ErrorCode::kMetadata, "the snapshot in '{}' is damaged: {}; remove it", path,
                            what);
}

std::string folder_of_all(const BoxFolder& folder) {
    return folder.path + "/snapshots";
}

std::string encode(const SnapshotRecord& record) {
    auto memory_files = nlohmann::json::array();
    for (const auto& file : record.memory_files)
        memory_files.push_back({{"id", file.id}, {"sha256", file.sha256}});
    const nlohmann::json json = {{"format", record.format},         {"name", record.name},
                                 {"created_at", record.created_at}, {"layer", record.layer},
                                 {"memory", record.memory},         {"memory_bytes", record.memory_bytes},
                                 {"kernel", record.kernel},         {"machine_sha256", record.machine_sha256},
                                 {"memory_files", memory_files}};
    return json.dump(2) + "\n";
}

Result<SnapshotRecord> decode(const std::string& path, const std::string& text) {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object()) return damaged(path, "its record is no JSON object");
    const auto format = json.find("format");
    if (format == json.end() || !format->is_number_integer()) return damaged(path, "its format is not named");
    if (*format < kOldestFormat || *format > kSnapshotFormat)
        return base::make_error(ErrorCode::kUnsupported,
                                "the snapshot in '{}' has format {}, this release knows {} to {}", path,
                                format->get<int64_t>(), kOldestFormat, kSnapshotFormat);
    SnapshotRecord record;
    record.format = *format;
    bool whole = true;
    const auto take = [&](const char* key, auto& value) {
        const auto found = json.find(key);
        using T = std::remove_reference_t<decltype(value)>;
        constexpr bool kText = std::is_same_v<T, std::string>, kTruth = std::is_same_v<T, bool>;
        whole = whole && found != json.end() &&
                (kText    ? found->is_string()
                 : kTruth ? found->is_boolean()
                          : found->is_number_integer());
        if (whole) value = found->get<T>();
    };
    take("name", record.name);
    take("created_at", record.created_at);
    take("layer", record.layer);
    take("memory", record.memory);
    take("memory_bytes", record.memory_bytes);
    take("kernel", record.kernel);
    take("machine_sha256", record.machine_sha256);
    const auto files = json.find("memory_files");
    whole = whole && files != json.end() && files->is_array();
    for (size_t i = 0; whole && i < files->size(); ++i) {
        const auto& file = (*files)[i];
        whole = file.is_object() && file.value("id", nlohmann::json()).is_string() &&
                file.value("sha256", nlohmann::json()).is_string();
        if (whole) record.memory_files.push_back({file["id"], file["sha256"]});
    }
    if (!whole || record.layer.find('/') != std::string::npos)
        return damaged(path, "its record is not whole");
    return record;
}

std::string checked_path(const std::string& path) {
    return path + "/checked";
}

struct Look {
    uint64_t size = 0;
    std::string line;  // changes with whatever is written to the file, and with the host's next start
};

Result<Look> look_at(int file) {
    struct stat st;
    if (::fstat(file, &st) < 0) return base::errno_error(ErrorCode::kStorage, "look at the memory");
    return Look{
        static_cast<uint64_t>(st.st_size),
        fmt::format("{} {} {} {} {}.{:09} {}.{:09}\n", TRY(host_boot_id()), st.st_dev, st.st_ino, st.st_size,
                    st.st_mtim.tv_sec, st.st_mtim.tv_nsec, st.st_ctim.tv_sec, st.st_ctim.tv_nsec)};
}

// Only spares the next restore some work.
void note_checked(const std::string& path, const std::string& looks) {
    (void)base::write_file_atomically(checked_path(path), base::as_bytes(looks), 0600);
}

// Gives a layer that another snapshot of the box has another name here. Returns its checksum.
std::optional<std::string> link_known_layer(const BoxFolder& folder, const std::string& id,
                                            const std::string& to) {
    for (const SnapshotRecord& other : list_snapshots(folder))
        for (size_t i = 0; i < other.memory_files.size(); ++i)
            if (other.memory_files[i].id == id &&
                ::link(memory_path(snapshot_path(folder, other.name), i).c_str(), to.c_str()) == 0)
                return other.memory_files[i].sha256;
    return std::nullopt;
}

Result<std::string> write_layer(const std::string& path, int memory, const v1::MemoryLayer& layer,
                                uint64_t bytes, std::string& looks) {
    const base::Fd file = TRY(base::open_file(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    TRY(write_layer_file(file.get(), memory, layer, bytes));
    if (::fsync(file.get()) < 0) return base::errno_error(ErrorCode::kStorage, "sync the memory");
    looks += TRY(look_at(file.get())).line;
    return memory_file_sha256(file.get());
}

// What the record says of the machine is known once its files are there.
Result<void> write_machine(const BoxFolder& folder, const std::string& path, const CapturedMachine& machine,
                           SnapshotRecord& record) {
    const std::string image = machine.image.SerializeAsString();
    TRY(base::write_file_atomically(path + "/machine", base::as_bytes(image), 0600));
    record.machine_sha256 = TRY(image::Digest::of(base::as_bytes(image))).hex();
    std::string looks;
    for (size_t i = 0; i < machine.memory.size(); ++i) {
        const v1::MemoryLayer& layer = machine.image.layers(static_cast<int>(i));
        auto sha256 = link_known_layer(folder, layer.id(), memory_path(path, i));
        if (!sha256)
            sha256 = TRY(write_layer(memory_path(path, i), machine.memory[i].get(), layer,
                                     record.memory_bytes, looks));
        record.memory_files.push_back({layer.id(), *sha256});
    }
    note_checked(path, looks);
    return {};
}

Result<std::vector<base::Fd>> open_layers(const std::string& path, const SnapshotRecord& record) {
    const auto noted = base::read_file(checked_path(path), kMaxRecordBytes);
    const std::string checked = noted.ok() ? *noted : "";
    std::vector<base::Fd> files;
    std::string looks;
    for (size_t i = 0; i < record.memory_files.size(); ++i) {
        files.push_back(TRY(base::open_file(memory_path(path, i), O_RDONLY | O_NOFOLLOW)));
        const Look look = TRY(look_at(files.back().get()));
        if (checked.find(look.line) == std::string::npos &&
            (look.size != record.memory_bytes ||
             TRY(memory_file_sha256(files.back().get())) != record.memory_files[i].sha256))
            return damaged(path, "the memory is not what was written");
        looks += look.line;
    }
    if (looks != checked) note_checked(path, looks);
    return files;
}

}  // namespace

std::string snapshot_path(const BoxFolder& folder, const std::string& name) {
    return folder_of_all(folder) + "/" + name;
}

std::string memory_path(const std::string& snapshot_path, size_t index) {
    return fmt::format("{}/memory.{}", snapshot_path, index);
}

std::vector<SnapshotRecord> list_snapshots(const BoxFolder& folder) {
    std::vector<SnapshotRecord> records;
    for (const std::string& name : names_in(folder_of_all(folder)))
        if (auto record = read_snapshot(folder, name); record.ok())
            records.push_back(std::move(record).value());
    std::sort(records.begin(), records.end(), [](const SnapshotRecord& a, const SnapshotRecord& b) {
        return std::tie(a.created_at, a.name) < std::tie(b.created_at, b.name);
    });
    return records;
}

Result<SnapshotRecord> read_snapshot(const BoxFolder& folder, const std::string& name) {
    const std::string path = snapshot_path(folder, name);
    if (!base::path_exists(path)) return base::make_error(ErrorCode::kNotFound, "no such snapshot: {}", name);
    const auto text = base::read_file(path + "/snapshot.json", kMaxRecordBytes);
    if (!text.ok()) return damaged(path, "its record cannot be read");
    return decode(path, *text);
}

Result<std::vector<std::string>> layers_of_snapshots(const BoxFolder& folder) {
    std::vector<std::string> layers;
    for (const std::string& name : names_in(folder_of_all(folder)))
        layers.push_back(TRY(read_snapshot(folder, name)).layer);
    return layers;
}

Result<void> write_snapshot(const BoxFolder& folder, SnapshotRecord record, const CapturedMachine* machine) {
    const std::string path = snapshot_path(folder, record.name);
    if (base::path_exists(path))
        return base::make_error(ErrorCode::kAlreadyExists,
                                "there is a snapshot '{}'; remove it first or choose another name",
                                record.name);
    const std::string fresh = snapshot_path(folder, "." + record.name + ".new");
    TRY(base::remove_tree(fresh));
    TRY(base::make_directories(fresh, 0700));
    auto written = [&]() -> Result<void> {
        if (machine) TRY(write_machine(folder, fresh, *machine, record));
        TRY(base::write_file_atomically(fresh + "/snapshot.json", base::as_bytes(encode(record)), 0600));
        if (::rename(fresh.c_str(), path.c_str()) < 0)
            return base::errno_error(ErrorCode::kStorage, "put the snapshot in its place");
        return base::sync_directory(folder_of_all(folder));
    }();
    if (!written.ok()) (void)base::remove_tree(fresh);
    return written;
}

Result<CapturedMachine> read_machine(const BoxFolder& folder, const SnapshotRecord& record) {
    const std::string path = snapshot_path(folder, record.name);
    CapturedMachine machine;
    const std::string image = TRY(base::read_file(path + "/machine", kMaxMachineBytes));
    if (TRY(image::Digest::of(base::as_bytes(image))).hex() != record.machine_sha256 ||
        !machine.image.ParseFromString(image) || machine.image.layers_size() == 0 ||
        static_cast<size_t>(machine.image.layers_size()) != record.memory_files.size() ||
        machine.image.layers(0).runs_size() == 0)
        return damaged(path, "the machine's state is not what was written");
    machine.memory = TRY(open_layers(path, record));
    return machine;
}

Result<void> remove_snapshot_files(const BoxFolder& folder, const std::string& name) {
    const std::string path = snapshot_path(folder, name);
    // At once gone for everybody else.
    const std::string doomed = snapshot_path(folder, "." + name + ".old");
    TRY(base::remove_tree(doomed));
    if (::rename(path.c_str(), doomed.c_str()) < 0)
        return base::errno_error(ErrorCode::kStorage, "remove the snapshot '{}'", name);
    return base::remove_tree(doomed);
}

Result<std::string> file_sha256(const std::string& path) {
    const base::Fd fd = TRY(base::open_file(path, O_RDONLY));
    image::Hasher hasher = TRY(image::Hasher::make());
    base::Bytes buffer(size_t{1} << 20);
    for (;;) {
        const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return base::errno_error(ErrorCode::kStorage, "read '{}'", path);
        if (n == 0) break;
        hasher.update({buffer.data(), static_cast<size_t>(n)});
    }
    return std::string(TRY(hasher.finish()).hex());
}

}  // namespace boxlite::runtime
