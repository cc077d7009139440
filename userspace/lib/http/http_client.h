// SPDX-License-Identifier: MIT
// HTTP requests to other hosts, by libcurl. It is loaded when the first one is made: few hosts
// make any, and its thirty libraries would cost each start of the programs. Nothing of what is
// asked or answered is known here.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace swift {

struct HttpRequest {
	std::string url;
	std::vector<std::string> headers = {}; // "Name: value"
	std::string body = {}; // posted
	bool get = false; // instead
	std::string ca_file = {}; // empty: the system's authorities
	double timeout_s = 60; // of the whole request
	std::size_t most_bytes = 64u << 20; // of the answer
	std::function<bool()> cancelled = {}; // asked about once a second; true: it ends with an Error
};

struct HttpReply {
	long status = 0;
	std::string body;
};

// How a request is made: tests have others.
using HttpPost = std::function<Result<HttpReply>(const HttpRequest &)>;

// Posts with HTTP and HTTPS alone, and follows no redirection. Connections are kept from request to
// request. An Error if there is no libcurl.
Result<HttpPost> http_client();

// http:// or https://, a host, no user, nothing that a log should not show; else an Error named @what.
Result<void> check_url(const std::string &what, const std::string &url);
[[nodiscard]] bool is_loopback_url(std::string_view url);
// "Authorization: Bearer TOKEN" with what @text, the content of a file, has; @what names the file.
Result<std::string> bearer_header(const std::string &what, std::string_view text);

} // namespace swift
