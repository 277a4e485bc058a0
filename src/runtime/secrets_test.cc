#include "runtime/secrets.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/process_settings.h"

namespace boxlite::runtime {
namespace {

Secret token() {
    Secret secret;
    secret.name = "TOKEN";
    secret.hosts = {"API.example.com"};
    secret.value = "s3cret-value";
    return secret;
}

TEST(Secrets, RecordsHaveNoValue) {
    BoxConfig config;
    Secret other = token();
    other.name = "OTHER";
    other.env = "VARIABLE";
    config.secrets = secret_records({token(), other}).value();
    EXPECT_EQ(config.secrets[0].placeholder, "<BOXLITE_SECRET:TOKEN>");
    EXPECT_EQ(config.secrets[0].hosts, std::vector<std::string>{"api.example.com"});
    const std::string text = encode(config);
    EXPECT_EQ(text.find("s3cret-value"), std::string::npos);
    const BoxConfig back = decode_config(text).value();
    ASSERT_EQ(back.secrets.size(), 2u);
    EXPECT_EQ(back.secrets[1].env, "VARIABLE");
    EXPECT_EQ(back.secrets[1].placeholder, "<BOXLITE_SECRET:OTHER>");
    EXPECT_EQ(describe_secrets(back.secrets)[0].value, "");
}

TEST(Secrets, WhatCannotBeOneIsRefused) {
    const auto refused = [](auto change) {
        Secret secret = token();
        change(secret);
        return secret_records({secret}).error().code == ErrorCode::kInvalidArgument;
    };
    EXPECT_TRUE(refused([](Secret& s) { s.hosts.clear(); }));
    EXPECT_TRUE(refused([](Secret& s) { s.value = "x\ny-z"; }));
    EXPECT_TRUE(refused([](Secret& s) { s.file = "relative"; }));
    EXPECT_TRUE(refused([](Secret& s) { s.placeholder = "x"; }));
    EXPECT_FALSE(secret_records({token(), token()}).ok());
    Secret within = token();
    within.name = "WITHIN";
    within.placeholder = "BOXLITE_SECRET:TOKEN";
    EXPECT_FALSE(secret_records({token(), within}).ok());
}

TEST(Secrets, VariablesOfTheBox) {
    BoxConfig config;
    std::vector<std::string> env;
    add_secret_variables(config, env);
    EXPECT_TRUE(env.empty());
    config.network = true;
    config.secrets = secret_records({token()}).value();
    env = {"CURL_CA_BUNDLE=/mine"};
    add_secret_variables(config, env);
    EXPECT_EQ(std::count(env.begin(), env.end(), "BOXLITE_SECRET_TOKEN=<BOXLITE_SECRET:TOKEN>"), 1);
    EXPECT_TRUE(has_variable(env, "SSL_CERT_FILE"));
    EXPECT_TRUE(has_variable(env, "NODE_EXTRA_CA_CERTS"));
    EXPECT_EQ(std::count(env.begin(), env.end(), "CURL_CA_BUNDLE=/mine"), 1);
}

TEST(Secrets, WhoNeedsConnectionsToBeLookedInto) {
    BoxConfig config;
    config.network = true;
    EXPECT_FALSE(needs_interception(config));
    config.deny_net = {"GET http://a.example/*"};
    EXPECT_FALSE(needs_interception(config));
    config.deny_net = {"GET https://a.example/*"};
    EXPECT_TRUE(needs_interception(config));
    config.deny_net.clear();
    config.secrets = secret_records({token()}).value();
    EXPECT_TRUE(needs_interception(config));
}

TEST(Secrets, GivenValuesAreTakenOnce) {
    GivenSecrets given;
    given.give({token()});
    SecretValues first, second;
    given.take(first);
    given.take(second);
    EXPECT_EQ(first.all().at("TOKEN"), "s3cret-value");
    EXPECT_FALSE(second.has("TOKEN"));
}

}  // namespace
}  // namespace boxlite::runtime
