// The kept output of a box's main process: records of (time, stream, bytes) in a rotating file. The file is
// what `boxlite logs` reads after the box has stopped.
//
// Record: stream (1 byte: 0 stdout, 1 stderr), 3 bytes of zero, length (32 bits), time in ns since the epoch
// (64 bits), all little endian, then the bytes. A record never spans the two files.
#pragma once

#include <functional>
#include <string>

#include "shim/rotating_file.h"

namespace boxlite::shim {

struct LogRecord {
    uint8_t stream = 0;
    int64_t time_ns = 0;
    std::string data;
};

class OutputLog {
  public:
    static constexpr uint64_t kFileBytes = 16 << 20;  // of each of the two files
    static constexpr size_t kHeaderBytes = 16;
    static constexpr size_t kMaxRecordBytes = 1 << 20;

    static Result<OutputLog> create(const std::string& path);

    Result<void> append(uint8_t stream, int64_t time_ns, base::ByteView data);

    // Whole records from `position` on, at least one when there is one, at most about `max_bytes`, and the
    // position after them. A position that is not there any more continues at the oldest record.
    struct Slice {
        std::vector<LogRecord> records;
        uint64_t next = 0;
    };
    Result<Slice> read(uint64_t position, size_t max_bytes) const;

    uint64_t start() const { return file_.start(); }
    uint64_t end() const { return file_.end(); }

  private:
    explicit OutputLog(RotatingFile file) : file_(std::move(file)) {}
    RotatingFile file_;
};

// The records that a stopped box left in `path` and `path`.1, oldest first, until `sink` returns false. A
// last record that is cut short (the supervisor was killed) is left out. A missing file is an empty log.
Result<void> read_output_log(const std::string& path, const std::function<bool(const LogRecord&)>& sink);

}  // namespace boxlite::shim
