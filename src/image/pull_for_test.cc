// pull_for_test STORE REFERENCE: one pull in a process of its own, for tests that kill it or run several.
#include <cstdio>

#include "image/pull.h"

int main(int argc, char** argv) {
    using namespace boxlite;
    if (argc != 3) return 2;
    auto store = image::Store::open(argv[1]);
    if (!store.ok()) {
        std::fprintf(stderr, "%s\n", store.error().message.c_str());
        return 1;
    }
    image::PullOptions options;
    options.docker_config = "/nonexistent";
    const auto pulled = image::pull(*store, argv[2], options);
    if (!pulled.ok())
        std::fprintf(stderr, "%s\n", pulled.error().message.c_str());
    else
        std::printf("%s\n", pulled->image.manifest.digest.to_string().c_str());
    return pulled.ok() ? 0 : 1;
}
