#include "runtime/templates.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "image/digest.h"
#include "rpc/sized.h"
#include "runtime/supervisor.h"

namespace boxlite::runtime {

namespace {

constexpr std::chrono::milliseconds kHandOverBudget{5'000};

// A file as it is now, without reading all of it.
Result<std::string> identity_of(const std::string& path) {
    struct stat st;
    if (::stat(path.c_str(), &st) < 0) return base::errno_error(ErrorCode::kStorage, "look at '{}'", path);
    return fmt::format("{} {} {}.{}\n", path, st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

// Of everything that a template depends on.
Result<std::string> template_key(const RuntimeImpl& runtime, const v1::BoxSpec& spec) {
    std::string text =
        fmt::format("{} {} {} {}\n", TRY(host_boot_id()), spec.cpus(), spec.memory_mib(), spec.has_network());
    for (const std::string& path :
         {spec.kernel_path(), spec.initramfs_path(), TRY(runtime.assets.supervisor())})
        text += TRY(identity_of(path));
    constexpr size_t kDigits = 32;
    return std::string(TRY(image::Digest::of(base::as_bytes(text))).hex().substr(0, kDigits));
}

Result<CapturedMachine> read_template(const std::string& key, const std::string& folder) {
    CapturedMachine machine;
    machine.image.set_state(TRY(base::read_file(folder + "/state")));
    machine.memory.push_back(TRY(base::open_file(folder + "/memory", O_RDONLY | O_NOFOLLOW)));
    struct stat st;
    if (::fstat(machine.memory.front().get(), &st) < 0)
        return base::errno_error(ErrorCode::kStorage, "look at a template");
    auto* layer = machine.image.add_layers();
    layer->set_id("template-" + key);
    layer->add_runs()->set_size(static_cast<uint64_t>(st.st_size));
    return machine;
}

Result<void> make(const RuntimeImpl& runtime, const v1::BoxSpec& box) {
    v1::TemplateSpec spec;
    spec.set_folder(runtime.home.templates());
    spec.set_key(TRY(template_key(runtime, box)));
    if (base::path_exists(spec.folder() + "/" + spec.key())) return {};
    spec.set_kernel_path(box.kernel_path());
    spec.set_initramfs_path(box.initramfs_path());
    spec.set_cpus(box.cpus());
    spec.set_memory_mib(box.memory_mib());
    spec.set_network(box.has_network());
    spec.set_log_dir(box.log_dir());
    const auto started = TRY(base::run_command({TRY(runtime.assets.supervisor()), "--make-template"},
                                               rpc::sized(spec), size_t{64} << 10, kHandOverBudget));
    if (started.status.shell_code() != 0) return base::make_error(ErrorCode::kEngine, "{}", started.err);
    return {};
}

}  // namespace

std::optional<CapturedMachine> find_template(const RuntimeImpl& runtime, const v1::BoxSpec& spec) {
    const auto key = template_key(runtime, spec);
    if (!key.ok()) return std::nullopt;
    const std::string folder = runtime.home.templates() + "/" + *key;
    auto machine = read_template(*key, folder);
    if (!machine.ok()) return std::nullopt;
    ::utimensat(AT_FDCWD, folder.c_str(), nullptr, 0);  // those that are used longest ago make room
    return std::move(machine).value();
}

void make_missing_template(const RuntimeImpl& runtime, const v1::BoxSpec& spec) {
    if (const auto asked = make(runtime, spec); !asked.ok())
        base::log_warn("no template is being made", {{"error", asked.error().message}});
}

}  // namespace boxlite::runtime
