// The check of an image before it is opened for writing.
#pragma once

#include <memory>

#include "disk/qcow2_allocator.h"
#include "disk/qcow2_tables.h"

namespace boxlite::disk::qcow2 {

// Walks every table and builds the allocator. Fails when a table or cluster lies outside the file, is used
// twice, is used without being counted, or is of a kind that cannot be written. Clusters that are counted
// and unused are taken as free; their counts are left dirty() for the caller to write after a sync.
// Reads all L2 tables and refcount blocks: 160 KiB per GiB in use at 64 KiB clusters.
Result<std::unique_ptr<ClusterAllocator>> check_image(BlockIo& io, Header& header, const Tables& tables,
                                                      uint64_t file_size);

}  // namespace boxlite::disk::qcow2
