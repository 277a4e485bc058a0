// Addresses for names that only the host's proxy can resolve: the box gets one of 198.18.0.0/15 (RFC 2544,
// which nobody has), and what it connects to there goes to the proxy by its name. A name keeps its address.
// Thread safety: the loop's thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "net/address.h"

namespace boxlite::net {

class StandIns {
  public:
    static constexpr size_t kMaxNames = 16384;

    // nullopt for a name that has none.
    std::optional<IpAddress> find(const std::string& name) const;
    // The one that it has, or a new one; nullopt when there are too many.
    std::optional<IpAddress> add(const std::string& name);
    // The name that an address stands for; nullptr for one that stands for none.
    const std::string* name_of(const IpAddress& address) const;
    // Whether it is one that can stand for a name.
    static bool covers(const IpAddress& address);

  private:
    std::vector<std::string> names_;  // by number
    std::map<std::string, size_t> numbers_;
};

}  // namespace boxlite::net
