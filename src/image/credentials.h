// Credentials that `docker login` left: config.json with "auths", "credHelpers" and "credsStore".
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace boxlite::image {

struct Credentials {
    std::string username;
    std::string password;
    std::string identity_token;  // an OAuth2 refresh token, instead of a password
    std::string registry_token;  // a bearer token to be sent as it is
};

// $DOCKER_CONFIG, else ~/.docker; "" when neither is known.
std::string default_docker_config_folder();

// What is stored for `registry` ("docker.io", "localhost:5000"); nullopt when nothing is. Runs the credential
// helper named there, if any. kConfig for a file or a helper that does not work.
Result<std::optional<Credentials>> find_docker_credentials(const std::string& folder,
                                                           const std::string& registry);

}  // namespace boxlite::image
