// For tests: what a tree holds, read from an ext4 image through libext2fs or from a host directory, in one
// form that can be compared.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "disk/ext4_writer.h"

namespace boxlite::disk {

struct TreeNode {
    uint32_t mode = 0;
    uint32_t uid = 0;
    uint32_t gid = 0;
    uint64_t size = 0;   // of regular files and symbolic links, else 0
    uint64_t links = 0;  // of all but directories, else 0
    FileTime mtime;
    uint32_t major = 0;
    uint32_t minor = 0;
    std::string target;                         // of a symbolic link
    std::string content_hash;                   // of a regular file
    std::map<std::string, std::string> xattrs;  // full names
    std::string first_name;                     // the smallest path of the same inode
    uint64_t allocated = 0;                     // bytes; not compared

    // One line with everything that is compared, for readable differences.
    std::string to_string() const;
};
using Tree = std::map<std::string, TreeNode>;  // by path from the root: "/", "/etc", "/etc/passwd"

Result<Tree> read_image_tree(const std::string& image);
Result<Tree> read_host_tree(const std::string& root);
Result<std::string> read_image_file(const std::string& image, const std::string& path);

// One line per difference.
std::vector<std::string> compare_trees(const Tree& expected, const Tree& actual);

// Runs `e2fsck -fn`; "" when it found nothing, else what it said.
std::string check_image(const std::string& image);

}  // namespace boxlite::disk
