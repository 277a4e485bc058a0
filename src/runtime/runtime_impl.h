// What a Runtime handle refers to: one process's view of a home directory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "boxlite/image.h"
#include "boxlite/options.h"
#include "image/registry_config.h"
#include "image/store.h"
#include "runtime/assets.h"
#include "runtime/children.h"
#include "runtime/home.h"
#include "runtime/state_store.h"

namespace boxlite {

class RuntimeImpl {
  public:
    static Result<std::shared_ptr<RuntimeImpl>> open(const RuntimeOptions& options);

    // Members are set once and thread safe themselves.
    const runtime::Home home;
    const std::unique_ptr<runtime::StateStore> state;
    image::Store images;
    const image::RegistryOptions registries;
    const runtime::Assets assets;
    const std::function<void(const std::string&)> notice;  // may be empty
    runtime::Children children;

  private:
    RuntimeImpl(runtime::Home h, std::unique_ptr<runtime::StateStore> s, image::Store i,
                image::RegistryOptions r, std::function<void(const std::string&)> n)
        : home(std::move(h)),
          state(std::move(s)),
          images(std::move(i)),
          registries(std::move(r)),
          assets(home),
          notice(std::move(n)) {}
};

}  // namespace boxlite
