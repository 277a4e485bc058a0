#include "agent/trust.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"

namespace boxlite::agent {

namespace {

// What is outside of the certificates' own lines is passed over by all that read such files.
constexpr std::string_view kBegin = "# Begin of what BoxLite adds\n", kEnd = "# End of what BoxLite adds\n";
constexpr size_t kMaxStore = 8 << 20;

// Debian and Alpine; Fedora; openSUSE; OpenSSL's own name for it. One may be a link to another.
constexpr const char* kStores[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                   "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};
// Where the tools that make those stores look for more, and under which name they take it.
constexpr const char* kSources[] = {"/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors"};
constexpr const char* kSourceName = "boxlite.crt";
// Of files that are named by a hash.
constexpr const char* kFolder = "/etc/ssl/certs";
constexpr const char* kHashes = "/etc/boxlite/hashes";

Result<void> write_file(const Root& root, const std::string& path, std::string_view text) {
    const base::Fd fd = TRY(root.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY, 0644));
    return base::write_all(fd.get(), base::as_bytes(text));
}

bool is_directory(const Root& root, const char* path) {
    return root.open(path, O_PATH | O_DIRECTORY).ok();
}

// The store with our part replaced. What is not there is left alone.
Result<bool> change_store(const Root& root, const char* path, const std::string& ours) {
    if (!root.open(path, O_PATH).ok()) return false;
    std::string text = TRY(root.read_text(path, kMaxStore));
    const std::string before = text;
    if (const size_t begin = text.find(kBegin); begin != std::string::npos) {
        const size_t end = text.find(kEnd, begin);
        text.erase(begin, end == std::string::npos ? end : end + kEnd.size() - begin);
    }
    if (!text.empty() && text.back() != '\n') text += '\n';
    if (!ours.empty()) text += std::string(kBegin) + ours + std::string(kEnd);
    if (text != before) TRY(write_file(root, path, text));
    return true;
}

Result<void> remove(const Root& root, const std::string& path) {
    const auto place = root.place(path, false);
    if (place.ok() && ::unlinkat(place->dir.get(), place->name.c_str(), 0) < 0 && errno != ENOENT)
        return file_error("remove '" + path + "'", errno);
    return {};
}

// What a hash finds, for programs that do not read the store as one file.
Result<void> change_hashes(const Root& root, const v1::Trust& trust) {
    const std::string before = TRY(root.read_text(kHashes, kMaxStore));
    for (size_t at = 0; at < before.size();) {
        const size_t end = std::min(before.find('\n', at), before.size());
        // The box's programs may have written to it, and it is their folder.
        (void)remove(root, std::string(kFolder) + "/" + before.substr(at, end - at));
        at = end + 1;
    }
    std::string names;
    if (is_directory(root, kFolder)) {
        for (const v1::Authority& authority : trust.authorities()) {
            if (authority.hash().empty()) continue;
            const std::string name = std::string(authority.hash()) + ".0";
            TRY(write_file(root, std::string(kFolder) + "/" + name, authority.certificates()));
            names += name + "\n";
        }
    }
    if (names != before) TRY(write_file(root, kHashes, names));
    return {};
}

}  // namespace

Result<void> set_trust(const Root& root, const v1::Trust& trust) {
    const bool before = root.open(kExtraTrustFile, O_PATH).ok();
    if (trust.authorities_size() == 0 && !before) return {};
    std::string ours;
    for (const v1::Authority& authority : trust.authorities()) {
        ours += authority.certificates();
        if (!ours.ends_with('\n')) ours += '\n';
    }
    TRY(root.place(kExtraTrustFile, true));
    TRY(write_file(root, kExtraTrustFile, ours));
    const char* store = nullptr;
    for (const char* path : kStores)
        if (TRY(change_store(root, path, ours)) && !store) store = path;
    const Root::Place place = TRY(root.place(kTrustFile, true));
    TRY(remove(root, kTrustFile));
    if (::symlinkat(store ? store : kExtraTrustFile, place.dir.get(), place.name.c_str()) < 0)
        return file_error(std::string("make '") + kTrustFile + "'", errno);
    for (const char* folder : kSources) {
        if (!is_directory(root, folder)) continue;
        const std::string path = std::string(folder) + "/" + kSourceName;
        TRY(ours.empty() ? remove(root, path) : write_file(root, path, ours));
    }
    return change_hashes(root, trust);
}

}  // namespace boxlite::agent
