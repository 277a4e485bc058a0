#include "image/registry_client.h"

#include <charconv>

#include "base/log.h"
#include "image/backoff.h"
#include "json/json.h"

namespace boxlite::image {

namespace {

const std::string kAcceptManifests =
    fmt::format("Accept: {}, {}, {}, {}", media_type::kOciIndex, media_type::kOciManifest,
                media_type::kDockerIndex, media_type::kDockerManifest);

// What the API of docker.io is called.
std::string api_host(const std::string& registry) {
    return registry == "docker.io" ? "registry-1.docker.io" : registry;
}

// Faults of one place that another place may not have.
bool worth_asking_elsewhere(const Error& error) {
    return error.code != ErrorCode::kStopped && error.code != ErrorCode::kStorage &&
           error.code != ErrorCode::kInternal;
}

// The first message of an error document of the distribution specification; "" when it is none.
std::string registry_message(const std::string& body) {
    const auto value = json::parse(body, "", ErrorCode::kNetwork, {.bytes = size_t{64} << 10});
    if (!value.ok() || !value->is_object() || !value->contains("errors")) return {};
    const json::Value& errors = (*value)["errors"];
    if (!errors.is_array() || errors.empty() || !errors[0].is_object()) return {};
    const json::Reader first(errors[0], "error");
    auto message = first.string_or("message", "");
    return message.ok() ? message->substr(0, 200) : "";
}

std::string plain_media_type(const std::string& content_type) {
    const size_t end = content_type.find_first_of("; \t");
    return content_type.substr(0, end);
}

// The start of "bytes 5-9/10"; nullopt when the header says anything else.
std::optional<uint64_t> range_start(const std::string& content_range) {
    constexpr std::string_view kUnit = "bytes ";
    if (!content_range.starts_with(kUnit)) return std::nullopt;
    uint64_t start = 0;
    const char* last = content_range.data() + content_range.size();
    const auto [end, error] = std::from_chars(content_range.data() + kUnit.size(), last, start);
    if (error != std::errc() || end == last || *end != '-') return std::nullopt;
    return start;
}

Result<void> check_header_digest(const HttpResponse& response, std::string_view content) {
    const std::string header = response.header("docker-content-digest");
    if (header.empty()) return {};
    const auto announced = Digest::parse(header);
    // An algorithm that we do not know says nothing to us.
    if (!announced.ok() && announced.error().code == ErrorCode::kUnsupported) return {};
    if (!announced.ok()) return announced.error();
    const Digest actual = TRY(Digest::of(base::as_bytes(content), announced->algorithm()));
    if (actual != *announced)
        return base::make_error(ErrorCode::kImage, "the manifest was announced as {} but is {}", header,
                                actual.to_string());
    return {};
}

}  // namespace

RegistryClient::RegistryClient(RegistryOptions options)
    : options_(std::move(options)), auth_(http_, options_) {}

RegistryClient::Place RegistryClient::place(const std::string& registry,
                                            const std::string& repository) const {
    Place place{.registry = registry, .repository = repository, .config = {.host = registry}};
    for (const RegistryConfig& config : options_.registries)
        if (config.host == registry) place.config = config;
    const bool http = place.config.transport == Transport::kHttp ||
                      (place.config.transport == Transport::kAuto && is_loopback_registry(registry));
    place.base_url = fmt::format("{}://{}/v2/{}", http ? "http" : "https", api_host(registry), repository);
    return place;
}

std::vector<RegistryClient::Place> RegistryClient::places_for(const Reference& reference,
                                                              bool mirrors) const {
    std::vector<Place> places;
    Place origin = place(reference.registry, reference.repository);
    for (const std::string& mirror : origin.config.mirrors) {
        if (!mirrors) break;
        const size_t slash = mirror.find('/');
        const std::string prefix = slash == std::string::npos ? "" : mirror.substr(slash + 1) + "/";
        places.push_back(place(mirror.substr(0, slash), prefix + reference.repository));
    }
    places.push_back(std::move(origin));
    return places;
}

template <typename T, typename Ask>
Result<T> RegistryClient::ask_in_order(const std::vector<Place>& places, Ask ask) {
    for (size_t i = 0;; ++i) {
        Result<T> answer = ask(places[i]);
        if (answer.ok() || i + 1 == places.size() || !worth_asking_elsewhere(answer.error())) return answer;
        base::log_info("mirror failed", {{"mirror", places[i].registry}, {"error", answer.error().message}});
    }
}

HttpRequest RegistryClient::request_to(const Place& place, std::string_view path,
                                       const std::stop_token& stop) const {
    return {.url = fmt::format("{}/{}", place.base_url, path),
            .skip_verify = place.config.skip_verify,
            .ca_file = place.config.ca_file,
            .connect_timeout = options_.connect_timeout,
            .stall_timeout = options_.stall_timeout,
            .stop = stop};
}

HttpOutcome RegistryClient::authorized(const Place& place, HttpRequest request) {
    const AuthTarget target{place.registry, place.repository, place.base_url.starts_with("https:"),
                            place.config};
    request.authorization = auth_.known(target);
    for (;;) {
        HttpOutcome outcome = http_.perform(request);
        if (outcome.fault || outcome.response.status != 401) return outcome;
        // Ends: what was rejected is not offered again, and a new token that is rejected too is the last.
        auto answer = auth_.answer(target, outcome.response.header("www-authenticate"), request.authorization,
                                   request.stop);
        if (!answer.ok()) {
            outcome.fault = std::move(answer).error();
            return outcome;
        }
        const bool had_one = !request.authorization.empty();
        request.authorization = std::move(answer).value();
        if (!had_one) continue;
        return http_.perform(request);
    }
}

HttpOutcome RegistryClient::retried(const Place& place, const HttpRequest& request) {
    Backoff backoff(options_.retries, options_.retry_delay);
    for (;;) {
        HttpOutcome outcome = authorized(place, request);
        if (!outcome.transient || !backoff.wait(outcome.response.retry_after, request.stop)) return outcome;
    }
}

Error RegistryClient::failure(const Place& place, std::string_view what, const HttpOutcome& outcome) const {
    if (outcome.fault) return *outcome.fault;
    const int status = outcome.response.status;
    std::string said = registry_message(outcome.response.body);
    if (!said.empty()) said = fmt::format(" ({})", said);
    if (status == 404)
        return base::make_error(ErrorCode::kNotFound, "registry {} has no {} of '{}'{}; check the name",
                                place.registry, what, place.repository, said);
    if (status == 401 || status == 403)
        return base::make_error(ErrorCode::kImage,
                                "registry {} does not give access to '{}'{}; log in with 'docker login {}'",
                                place.registry, place.repository, said, place.registry);
    if (status == 400 && outcome.response.body.find("HTTP request to an HTTPS server") != std::string::npos)
        return base::make_error(ErrorCode::kNetwork,
                                "registry {} speaks https; configure its transport as https", place.registry);
    return base::make_error(ErrorCode::kNetwork, "registry {} answers with status {} for {} of '{}'{}",
                            place.registry, status, what, place.repository, said);
}

Result<std::optional<Digest>> RegistryClient::head_manifest(const Reference& reference,
                                                            const std::stop_token& stop) {
    const std::string what = reference.tag_or_digest();
    return ask_in_order<std::optional<Digest>>(
        places_for(reference, true), [&](const Place& place) -> Result<std::optional<Digest>> {
            HttpRequest request = request_to(place, "manifests/" + what, stop);
            request.method = HttpRequest::Method::kHead;
            request.headers = {kAcceptManifests};
            const HttpOutcome outcome = authorized(place, request);
            if (outcome.fault || outcome.response.status != 200)
                return failure(place, fmt::format("manifest '{}'", what), outcome);
            auto digest = Digest::parse(outcome.response.header("docker-content-digest"));
            return digest.ok() ? std::optional(std::move(digest).value()) : std::optional<Digest>();
        });
}

Result<FetchedManifest> RegistryClient::get_manifest(const Reference& reference, const std::string& what,
                                                     const std::stop_token& stop) {
    return ask_in_order<FetchedManifest>(
        places_for(reference, true), [&](const Place& place) { return manifest_from(place, what, stop); });
}

Result<FetchedManifest> RegistryClient::manifest_from(const Place& place, const std::string& what,
                                                      const std::stop_token& stop) {
    HttpRequest request = request_to(place, "manifests/" + what, stop);
    request.headers = {kAcceptManifests};
    request.max_body = kMaxManifestBytes;
    HttpOutcome outcome = retried(place, request);
    if (outcome.fault || outcome.response.status != 200)
        return failure(place, fmt::format("manifest '{}'", what), outcome);

    HttpResponse& response = outcome.response;
    TRY_CONTEXT(check_header_digest(response, response.body), "registry " + place.registry);
    const auto wanted = Digest::parse(what);
    const auto algorithm = wanted.ok() ? wanted->algorithm() : DigestAlgorithm::kSha256;
    Digest digest = TRY(Digest::of(base::as_bytes(response.body), algorithm));
    if (wanted.ok() && digest != *wanted)
        return base::make_error(ErrorCode::kImage, "registry {} sent a manifest with the digest {} for '{}'",
                                place.registry, digest.to_string(), what);
    return FetchedManifest{std::move(response.body), plain_media_type(response.header("content-type")),
                           std::move(digest)};
}

bool RegistryClient::has_mirrors(const Reference& reference) const {
    return places_for(reference, true).size() > 1;
}

Result<void> RegistryClient::get_blob(const Reference& reference, const Descriptor& blob, BlobWriter& writer,
                                      const BlobEvents& events, bool mirrors, const std::stop_token& stop) {
    return ask_in_order<void>(places_for(reference, mirrors), [&](const Place& place) {
        return blob_from(place, blob, writer, events, stop);
    });
}

Result<void> RegistryClient::blob_from(const Place& place, const Descriptor& blob, BlobWriter& writer,
                                       const BlobEvents& events, const std::stop_token& stop) {
    Backoff backoff(options_.retries, options_.retry_delay);
    while (writer.offset() < blob.size) {
        const uint64_t before = writer.offset();
        uint64_t skip = 0;  // bytes that we have already, when the server starts anew
        HttpRequest request = request_to(place, "blobs/" + blob.digest.to_string(), stop);
        if (before > 0) request.headers = {fmt::format("Range: bytes={}-", before)};
        request.begin = [&](const HttpResponse& response) -> Result<void> {
            if (response.status != 206) {
                skip = before;
                return {};
            }
            if (before > 0 && range_start(response.header("content-range")) == before) return {};
            return base::make_error(ErrorCode::kNetwork,
                                    "registry {} sent the range '{}' instead of one from {}", place.registry,
                                    response.header("content-range"), before);
        };
        request.sink = [&](base::ByteView data) -> Result<void> {
            const size_t known = static_cast<size_t>(std::min<uint64_t>(skip, data.size()));
            skip -= known;
            TRY(writer.append(data.subspan(known)));
            events.advanced(writer.offset());
            return {};
        };
        const HttpOutcome outcome = authorized(place, request);
        if (!outcome.fault && (outcome.response.status == 200 || outcome.response.status == 206)) {
            if (writer.offset() == blob.size) return {};
            const uint64_t sent = writer.offset();
            TRY(writer.restart());
            events.restarted();
            return base::make_error(ErrorCode::kImage, "registry {} sent {} of the {} bytes of blob {}",
                                    place.registry, sent, blob.size, blob.digest.to_string());
        }
        if (writer.offset() > before) backoff.reset();
        if (outcome.response.status == 416 && before > 0) {
            TRY(writer.restart());
            events.restarted();
            continue;
        }
        if (!outcome.transient) return failure(place, "blob " + blob.digest.to_string(), outcome);
        events.retrying();
        if (!backoff.wait(outcome.response.retry_after, stop)) {
            if (stop.stop_requested()) return base::make_error(ErrorCode::kStopped, "stopped");
            return failure(place, "blob " + blob.digest.to_string(), outcome)
                .with_context(fmt::format("gave up after {} attempts", backoff.attempts()));
        }
    }
    return {};
}

}  // namespace boxlite::image
