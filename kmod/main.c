// SPDX-License-Identifier: GPL-2.0
/* Module load and unload: the order in which the parts come and go. */
#include <linux/module.h>

#include "swift_credit.h"

static int __init swift_module_init(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct swift_sock) > ICSK_CA_PRIV_SIZE);

	/* A socket may choose us as soon as we are registered: that comes last. */
	err = swift_paths_create();
	if (err)
		return err;
	err = swift_starts_create();
	if (err)
		goto out_paths;
	err = swift_credit_start();
	if (err)
		goto out_starts;
	err = swift_netns_register();
	if (err)
		goto out_credit;
	err = swift_link_register();
	if (err)
		goto out_netns;
	err = swift_clock_register();
	if (err)
		goto out_link;
	err = swift_rx_start();
	if (err)
		goto out_clock;
	err = swift_cong_register();
	if (err)
		goto out_rx;
	return 0;

out_rx:
	swift_rx_stop();
out_clock:
	swift_clock_unregister();
out_link:
	swift_link_unregister();
out_netns:
	swift_netns_unregister();
out_credit:
	swift_credit_stop();
out_starts:
	swift_starts_destroy();
out_paths:
	swift_paths_destroy();
	return err;
}

/* No socket is left: each held a reference to the module. */
static void __exit swift_module_exit(void)
{
	swift_cong_unregister();
	swift_rx_stop();
	swift_clock_unregister();
	swift_link_unregister();
	swift_netns_unregister();
	swift_links_wait();
	swift_credit_stop();
	swift_starts_destroy();
	swift_paths_destroy();
}

module_init(swift_module_init);
module_exit(swift_module_exit);

MODULE_AUTHOR("The tcp_swift authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("TCP Swift: delay-based congestion control for datacenters");
MODULE_VERSION("0.1.0");
