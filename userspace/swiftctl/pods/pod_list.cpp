// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <set>

#include "http_client.h"
#include "json.h"
#include "pods.h"
#include "printable.h"
#include "text.h"

namespace swift {

namespace {

constexpr double answer_within_s = 20; // for an answer

const Json &member(const Json &j, const char *key)
{
	static const Json none;
	const auto at = j.find(key); // of what is no object: its end

	return j.is_object() && at != j.end() ? *at : none;
}

bool is_url(const std::string &list)
{
	return list.find("://") != std::string::npos;
}

constexpr const char *hash_annotation = "kubernetes.io/config.hash";

std::string uid_of(const Json &metadata)
{
	return printable(text_member(metadata, "uid").value_or(""));
}

// A static pod's control group is named by the hash of its file, which the kubelet writes to the pod's mirror;
// empty: it is no mirror. Whoever makes a pod can write such an annotation.
std::string mirrored_hash(const Json &metadata)
{
	const Json &annotations = member(metadata, "annotations");
	const Json &owners = member(metadata, "ownerReferences");
	const std::string hash = text_member(annotations, hash_annotation).value_or("");
	const bool of_node = owners.is_array() &&
			     std::any_of(owners.begin(), owners.end(), [](const Json &o) { return text_member(o, "kind") == "Node"; });

	return of_node && text_member(annotations, "kubernetes.io/config.mirror") == hash ? printable(hash) : "";
}

// How many pods say of a control group that it is theirs, by its uid.
std::map<std::string, int> claims_of(const Json &items)
{
	std::map<std::string, int> claims;

	for (const Json &item : items) {
		const Json &metadata = member(item, "metadata");

		for (const std::string &uid : std::set{uid_of(metadata), mirrored_hash(metadata)})
			claims[uid]++;
	}
	return claims;
}

} // namespace

Result<std::vector<Pod>> read_pod_list(std::string_view text)
{
	const Json j = Json::parse(text, nullptr, false);
	const Json &items = member(j, "items");
	std::vector<Pod> pods;

	// A list without pods has null there from some servers.
	if (!j.is_object() || !j.contains("items") || !(items.is_array() || items.is_null()))
		return Error{"no list of pods: JSON with \"items\" is expected, as of GET /api/v1/pods"};
	// Pods of the next page would be taken for gone.
	if (!text_member(member(j, "metadata"), "continue").value_or("").empty())
		return Error{"a part of a list of pods: metadata.continue says that there is more (no limit= in the URL)"};

	const auto claims = claims_of(items);

	for (const Json &item : items) {
		const Json &metadata = member(item, "metadata");
		const Json &annotations = member(metadata, "annotations");

		if (!annotations.is_object() || !annotations.contains(pod_annotation))
			continue;
		const std::string value = text_member(annotations, pod_annotation).value_or("");
		const std::string hash = mirrored_hash(metadata);
		const bool is_anothers = !hash.empty() && claims.at(hash) > 1;
		Pod pod{hash.empty() || is_anothers ? uid_of(metadata) : hash,
			printable(text_member(metadata, "namespace").value_or("") + "/" + text_member(metadata, "name").value_or(""))};

		pod.asks = value == "true" && !pod.uid.empty() && !is_anothers;
		if (value == "true" && is_anothers)
			pod.wrong = std::string("another pod has its ") + hash_annotation + ", too";
		else if (value == "true" && pod.uid.empty())
			pod.wrong = "it has no metadata.uid";
		else if (value != "true" && value != "false")
			pod.wrong = Error{std::string("annotation ") + pod_annotation, printable(value), "\"true\", \"false\""}.text();
		pods.push_back(std::move(pod));
	}
	return pods;
}

Result<PodList> pod_list(const PodsOptions &options)
{
	if (!is_url(options.list)) {
		if (!options.token_file.empty() || !options.ca_file.empty())
			return Error{"--token-file and --ca-file go with the URL of a --list"};
		return PodList([file = options.list]() -> Result<std::vector<Pod>> {
			ASSIGN_OR_RETURN(const auto text, real_system()->read_file(file));
			return prefixed(printable(file) + ": ", read_pod_list(text));
		});
	}
	RETURN_IF_ERROR(check_url("--list", options.list));
	if (!options.token_file.empty() && !options.list.starts_with("https://") && !is_loopback_url(options.list))
		return Error{"--token-file", options.list, "an https:// URL: the token would be sent in clear"};
	ASSIGN_OR_RETURN(const auto http, http_client());
	return PodList([http, options]() -> Result<std::vector<Pod>> {
		HttpRequest request{options.list};

		request.get = true;
		request.ca_file = options.ca_file;
		request.timeout_s = answer_within_s;
		if (!options.token_file.empty()) { // which Kubernetes renews within the hour
			ASSIGN_OR_RETURN(const auto text, real_system()->read_file(options.token_file));
			ASSIGN_OR_RETURN(auto header, bearer_header(options.token_file, text));
			request.headers.push_back(std::move(header));
		}
		ASSIGN_OR_RETURN(const auto reply, http(request));
		if (reply.status != 200)
			return Error{options.list + " answers " + std::to_string(reply.status) +
				     (reply.status == 401 || reply.status == 403 ?
					      ": it wants another token (--token-file), of an account that may list pods" :
					      "")};
		return prefixed(options.list + ": ", read_pod_list(reply.body));
	});
}

} // namespace swift
