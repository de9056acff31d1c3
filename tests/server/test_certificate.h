#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <memory>
#include <string>

#include "base/check.h"
#include "server/server_options.h"
#include "support/temporary_folder.h"

namespace kvik {

// Writes files with a key and a self-signed certificate for "localhost".
class TestCertificate {
 public:
  explicit TestCertificate(const char* password = nullptr)
      : key_(EVP_EC_gen("P-256"), &EVP_PKEY_free) {
    CHECK(key_ != nullptr);
    write_key(password);
    write_certificate();
  }

  TlsFiles files() const { return {.certificate = path("cert.pem"), .key = path("key.pem")}; }

 private:
  using File = std::unique_ptr<FILE, int (*)(FILE*)>;

  std::string path(const char* name) const { return folder_.path() + "/" + name; }
  File create(const char* name) const { return {std::fopen(path(name).c_str(), "w"), &fclose}; }

  void write_key(const char* password) const {
    const File file = create("key.pem");
    const EVP_CIPHER* cipher = password ? EVP_aes_256_cbc() : nullptr;
    const auto* word = reinterpret_cast<const unsigned char*>(password);
    const int size = password ? static_cast<int>(std::string(password).size()) : 0;
    CHECK(PEM_write_PrivateKey(file.get(), key_.get(), cipher, word, size, nullptr, nullptr) == 1);
  }

  void write_certificate() const {
    constexpr long kDay = 24 * 60 * 60;
    const std::unique_ptr<X509, decltype(&X509_free)> x509(X509_new(), &X509_free);
    ASN1_INTEGER_set(X509_get_serialNumber(x509.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509.get()), -kDay);
    X509_gmtime_adj(X509_getm_notAfter(x509.get()), kDay);
    X509_NAME* const name = X509_get_subject_name(x509.get());
    const auto* host = reinterpret_cast<const unsigned char*>("localhost");
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, host, -1, -1, 0);
    X509_set_issuer_name(x509.get(), name);
    X509_set_pubkey(x509.get(), key_.get());
    CHECK(X509_sign(x509.get(), key_.get(), EVP_sha256()) > 0);
    CHECK(PEM_write_X509(create("cert.pem").get(), x509.get()) == 1);
  }

  const TemporaryFolder folder_;
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
};

}  // namespace kvik
