#include "image/archive_library.h"

#include "base/shared_library.h"

namespace boxlite::image {

namespace {

Result<ArchiveLibrary> load() {
    const auto library = TRY(base::SharedLibrary::load("libarchive.so.13"));
    ArchiveLibrary archive{};
    TRY(library.bind("archive_error_string", archive.error_string));
    TRY(library.bind("archive_filter_bytes", archive.filter_bytes));
    TRY(library.bind("archive_read_new", archive.read_new));
    TRY(library.bind("archive_read_free", archive.read_free));
    TRY(library.bind("archive_read_data", archive.read_data));
    TRY(library.bind("archive_read_next_header", archive.read_next_header));
    TRY(library.bind("archive_read_open_filename", archive.read_open_filename));
    TRY(library.bind("archive_read_support_filter_bzip2", archive.read_support_filter_bzip2));
    TRY(library.bind("archive_read_support_filter_gzip", archive.read_support_filter_gzip));
    TRY(library.bind("archive_read_support_filter_xz", archive.read_support_filter_xz));
    TRY(library.bind("archive_read_support_filter_zstd", archive.read_support_filter_zstd));
    TRY(library.bind("archive_read_support_format_raw", archive.read_support_format_raw));
    TRY(library.bind("archive_read_support_format_tar", archive.read_support_format_tar));
    TRY(library.bind("archive_entry_filetype", archive.entry_filetype));
    TRY(library.bind("archive_entry_hardlink", archive.entry_hardlink));
    TRY(library.bind("archive_entry_pathname", archive.entry_pathname));
    TRY(library.bind("archive_entry_symlink", archive.entry_symlink));
    return archive;
}

}  // namespace

const Result<ArchiveLibrary>& archive_library() {
    static const Result<ArchiveLibrary> library = load();
    return library;
}

}  // namespace boxlite::image
