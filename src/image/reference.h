// Names of images, with Docker's grammar and normalisation (the "reference" package of the distribution
// project): "alpine" is docker.io/library/alpine:latest.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "image/digest.h"

namespace boxlite::image {

struct Reference {
    std::string registry;          // host[:port], "docker.io" by default
    std::string repository;        // "library/alpine"
    std::string tag;               // "" only when there is a digest
    std::optional<Digest> digest;  // wins over the tag when both are given

    // kInvalidArgument with the rule that was broken. A name without tag and digest gets ":latest".
    static Result<Reference> parse(std::string_view text);

    // The references that `text` can mean, in order of preference. A name without a registry is looked
    // for in each host of `search`, or on docker.io when `search` is empty; a full name means itself.
    static Result<std::vector<Reference>> candidates(std::string_view text,
                                                     const std::vector<std::string>& search);

    // registry/repository[:tag][@digest]: the one spelling of this reference, and its key in the store.
    std::string to_string() const;
    // As people write it: without "docker.io/" and "library/"; a tag is always shown.
    std::string familiar() const;
    // What a registry is asked for: the digest if there is one, else the tag.
    std::string tag_or_digest() const;

    auto operator<=>(const Reference&) const = default;
};

// True for localhost, 127.0.0.0/8 and [::1], with or without a port.
bool is_loopback_registry(std::string_view registry);

}  // namespace boxlite::image
