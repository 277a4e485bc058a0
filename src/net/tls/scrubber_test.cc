#include "net/tls/scrubber.h"

#include <gtest/gtest.h>

namespace boxlite::net::tls {
namespace {

std::string scrubbed(const std::vector<Replacement>& replacements, std::string_view text, size_t piece) {
    Scrubber scrubber(replacements);
    base::Bytes out;
    for (size_t at = 0; at < text.size(); at += piece)
        scrubber.add(base::as_bytes(text.substr(at, piece)), out);
    scrubber.finish(out);
    return std::string(base::as_text(out));
}

TEST(Scrubber, ReplacesAcrossBorders) {
    const std::vector<Replacement> replacements = {
        {"sesame", "<S>"}, {"sesamestreet", "<SS>"}, {"aab", "<A>"}};
    const std::pair<const char*, const char*> cases[] = {
        {"", ""},
        {"nothing here", "nothing here"},
        {"open sesame!", "open <S>!"},
        {"sesamesesame", "<S><S>"},
        {"sesesame", "se<S>"},
        {"sesamestreet 1", "<SS> 1"},
        {"sesamestree", "<S>stree"},
        {"aaaab", "aa<A>"},
        {"sesam", "sesam"},
        {"aabsesameaab", "<A><S><A>"},
    };
    for (const auto& [text, expected] : cases)
        for (size_t piece = 1; piece < 20; ++piece)
            EXPECT_EQ(scrubbed(replacements, text, piece), expected) << piece;
}

TEST(Scrubber, HoldsBackOnlyWhatMayBecomeOne) {
    const std::vector<Replacement> replacements = {{"sesame", "<S>"}};
    Scrubber scrubber(replacements);
    base::Bytes out;
    scrubber.add(base::as_bytes("data: 1\n\n"), out);
    EXPECT_EQ(base::as_text(out), "data: 1\n\n");
    scrubber.add(base::as_bytes("ses"), out);
    EXPECT_EQ(base::as_text(out), "data: 1\n\n");
    scrubber.add(base::as_bytes("x"), out);
    EXPECT_EQ(base::as_text(out), "data: 1\n\nsesx");
    EXPECT_EQ(scrubber.hits(), 0u);
}

TEST(Scrubber, OfNothingPassesEverything) {
    EXPECT_EQ(scrubbed({}, "anything", 3), "anything");
}

}  // namespace
}  // namespace boxlite::net::tls
