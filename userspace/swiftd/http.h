// SPDX-License-Identifier: MIT
// The HTTP server around api.h: sockets, limits, TLS, the token, event streams. Any number of
// clients, slow or hostile, may cost their own connections and nothing else. Its threads are
// libmicrohttpd's, one per address.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api.h"
#include "options.h"
#include "result.h"
#include "store.h"

namespace swift {

class HttpServer {
public:
	HttpServer() = default;
	HttpServer(const HttpServer &) = delete;
	HttpServer &operator=(const HttpServer &) = delete;
	virtual ~HttpServer() = default;

	// To be called after each snapshot: event streams go on.
	virtual void wake_streams() = 0;
	// To be called about once a second: ends connections that have had their time.
	virtual void end_overdue() = 0;
	// "127.0.0.1:9464", with the ports that were really taken.
	[[nodiscard]] virtual std::vector<std::string> addresses() const = 0;
};

// @store and @facts have to outlive it.
Result<std::unique_ptr<HttpServer>> start_http(const Config::Http &config, Store &store,
					       const HostFacts &facts);

} // namespace swift
