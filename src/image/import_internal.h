// The two kinds of archives that import.cc tells apart. Internal to import.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "image/import.h"
#include "image/import_source.h"

namespace boxlite::image {

// An image whose blobs are in the store, not yet recorded. `name` is what the archive calls it: a full
// reference, only a tag, or nothing.
struct ImportedImage {
    Descriptor manifest;
    Digest source;  // of the index that the archive names, or the manifest's
    std::string name;
    bool name_is_tag = false;
};

struct ImportJob {
    Store& store;
    ImportSource& source;
    const ImportOptions& options;
    ImportLimits limits;
};

Result<std::vector<ImportedImage>> import_oci_layout(const ImportJob& job);
// With manifest.json.
Result<std::vector<ImportedImage>> import_docker_archive(const ImportJob& job);
// Only with "repositories", as Docker wrote before 1.10.
Result<std::vector<ImportedImage>> import_legacy_archive(const ImportJob& job);

}  // namespace boxlite::image
