#include "shim/output_log.h"

#include <fcntl.h>
#include <unistd.h>

namespace boxlite::shim {

namespace {

struct RecordHeader {
    uint8_t stream;
    uint8_t zero[3];
    uint32_t length;
    int64_t time_ns;
};
static_assert(sizeof(RecordHeader) == OutputLog::kHeaderBytes);

// False at the end of the file or of what is sound in it.
bool next_record(int fd, uint64_t& offset, LogRecord& record) {
    RecordHeader header;
    const std::span<uint8_t> raw(reinterpret_cast<uint8_t*>(&header), sizeof header);
    if (!base::pread_exact(fd, raw, offset).ok() || header.length > OutputLog::kMaxRecordBytes) return false;
    record.stream = header.stream;
    record.time_ns = header.time_ns;
    record.data.resize(header.length);
    const std::span<uint8_t> body(reinterpret_cast<uint8_t*>(record.data.data()), record.data.size());
    if (!base::pread_exact(fd, body, offset + sizeof header).ok()) return false;
    offset += sizeof header + header.length;
    return true;
}

}  // namespace

Result<OutputLog> OutputLog::create(const std::string& path) {
    return OutputLog(TRY(RotatingFile::create(path, kFileBytes)));
}

Result<void> OutputLog::append(uint8_t stream, int64_t time_ns, base::ByteView data) {
    const RecordHeader header{stream, {}, static_cast<uint32_t>(data.size()), time_ns};
    base::Bytes record(sizeof header + data.size());
    std::memcpy(record.data(), &header, sizeof header);
    std::memcpy(record.data() + sizeof header, data.data(), data.size());
    return file_.append(record);
}

Result<OutputLog::Slice> OutputLog::read(uint64_t position, size_t max_bytes) const {
    Slice slice;
    slice.next = std::max(position, start());
    if (slice.next > end())
        return base::make_error(ErrorCode::kInvalidArgument, "log position {} is past the end {}", position,
                                end());
    size_t taken = 0;
    while (slice.next < end() && (taken == 0 || taken < max_bytes)) {
        RecordHeader header;
        TRY(file_.read(slice.next, {reinterpret_cast<uint8_t*>(&header), sizeof header}));
        if (header.length > kMaxRecordBytes)
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "log position {} is not the start of a record", position);
        LogRecord record{header.stream, header.time_ns, std::string(header.length, '\0')};
        TRY(file_.read(slice.next + sizeof header,
                       {reinterpret_cast<uint8_t*>(record.data.data()), record.data.size()}));
        slice.next += sizeof header + header.length;
        taken += header.length;
        slice.records.push_back(std::move(record));
    }
    return slice;
}

Result<void> read_output_log(const std::string& path, const std::function<bool(const LogRecord&)>& sink) {
    for (const std::string& file : {path + ".1", path}) {
        const auto log = base::open_file(file, O_RDONLY | O_NOFOLLOW);
        if (!log.ok() && log.error().code == ErrorCode::kNotFound) continue;
        if (!log.ok()) return log.error();
        uint64_t offset = 0;
        LogRecord record;
        while (next_record(log->get(), offset, record))
            if (!sink(record)) return {};
    }
    return {};
}

}  // namespace boxlite::shim
