// libarchive, loaded at the first import: as with libcurl, what it brings with it takes long to load.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include "base/result.h"

namespace boxlite::image {

struct ArchiveLibrary {
    decltype(::archive_error_string)* error_string;
    decltype(::archive_filter_bytes)* filter_bytes;
    decltype(::archive_read_new)* read_new;
    decltype(::archive_read_free)* read_free;
    decltype(::archive_read_data)* read_data;
    decltype(::archive_read_next_header)* read_next_header;
    decltype(::archive_read_open_filename)* read_open_filename;
    decltype(::archive_read_support_filter_bzip2)* read_support_filter_bzip2;
    decltype(::archive_read_support_filter_gzip)* read_support_filter_gzip;
    decltype(::archive_read_support_filter_xz)* read_support_filter_xz;
    decltype(::archive_read_support_filter_zstd)* read_support_filter_zstd;
    decltype(::archive_read_support_format_raw)* read_support_format_raw;
    decltype(::archive_read_support_format_tar)* read_support_format_tar;
    decltype(::archive_entry_filetype)* entry_filetype;
    decltype(::archive_entry_hardlink)* entry_hardlink;
    decltype(::archive_entry_pathname)* entry_pathname;
    decltype(::archive_entry_symlink)* entry_symlink;
};

// Loaded once. kUnsupported: the host does not have it.
const Result<ArchiveLibrary>& archive_library();

}  // namespace boxlite::image
