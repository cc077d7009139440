// SPDX-License-Identifier: GPL-2.0
/*
 * A NIC's clock: set some time off the host's, running some parts per billion fast,
 * and a PTP clock that can be read, stepped and steered as any other.
 */
#include <linux/math64.h>

#include "fab.h"

static s64 fab_phc_read_locked(const struct fab_phc *phc, u64 now_ps)
{
	s64 since_ns = div_s64((s64)(now_ps - phc->anchor_ps), FAB_PS_PER_NS);
	s64 ppb = phc->drift_ppb + phc->adj_ppb;
	s64 since_ms;
	s32 rest_ns;

	/* In two steps: since_ns * ppb passes 63 bits after an hour at 1000 ppm. */
	since_ms = div_s64_rem(since_ns, NSEC_PER_MSEC, &rest_ns);
	return phc->anchor_ns + since_ns + div_s64(since_ms * ppb, 1000) +
	       div_s64(rest_ns * ppb, NSEC_PER_SEC);
}

s64 fab_phc_ns(struct fab_phc *phc, u64 now_ps)
{
	s64 now_ns;

	spin_lock_bh(&phc->lock);
	now_ns = fab_phc_read_locked(phc, now_ps);
	spin_unlock_bh(&phc->lock);
	return now_ns;
}

static u64 fab_phc_now_ps(void)
{
	return ktime_get_ns() * FAB_PS_PER_NS;
}

/* From here on at @ns. */
static void fab_phc_set_locked(struct fab_phc *phc, s64 ns, u64 now_ps)
{
	phc->anchor_ns = ns;
	phc->anchor_ps = now_ps;
}

void fab_phc_step(struct fab_phc *phc, s64 step_ns)
{
	u64 now_ps = fab_phc_now_ps();

	spin_lock_bh(&phc->lock);
	fab_phc_set_locked(phc, fab_phc_read_locked(phc, now_ps) + step_ns, now_ps);
	spin_unlock_bh(&phc->lock);
}

static int fab_phc_adjtime(struct ptp_clock_info *info, s64 delta_ns)
{
	fab_phc_step(container_of(info, struct fab_phc, info), delta_ns);
	return 0;
}

static int fab_phc_adjfine(struct ptp_clock_info *info, long scaled_ppm)
{
	struct fab_phc *phc = container_of(info, struct fab_phc, info);
	u64 now_ps = fab_phc_now_ps();

	spin_lock_bh(&phc->lock);
	fab_phc_set_locked(phc, fab_phc_read_locked(phc, now_ps), now_ps);
	phc->adj_ppb = scaled_ppm_to_ppb(scaled_ppm);
	spin_unlock_bh(&phc->lock);
	return 0;
}

static int fab_phc_gettimex64(struct ptp_clock_info *info, struct timespec64 *ts,
			      struct ptp_system_timestamp *sts)
{
	struct fab_phc *phc = container_of(info, struct fab_phc, info);

	ptp_read_system_prets(sts);
	*ts = ns_to_timespec64(fab_phc_ns(phc, fab_phc_now_ps()));
	ptp_read_system_postts(sts);
	return 0;
}

static int fab_phc_settime64(struct ptp_clock_info *info, const struct timespec64 *ts)
{
	struct fab_phc *phc = container_of(info, struct fab_phc, info);

	spin_lock_bh(&phc->lock);
	fab_phc_set_locked(phc, timespec64_to_ns(ts), fab_phc_now_ps());
	spin_unlock_bh(&phc->lock);
	return 0;
}

int fab_phc_init(struct fab_host *host)
{
	struct fab_phc *phc = &host->phc;
	ktime_t now = ktime_get();

	spin_lock_init(&phc->lock);
	phc->drift_ppb = host->config.phc_drift_ppb;
	/* Of one reading of the clock: a second one would be later. */
	fab_phc_set_locked(phc, ktime_to_ns(ktime_mono_to_real(now)) + host->config.phc_offset_ns,
			   ktime_to_ns(now) * FAB_PS_PER_NS);
	if (!host->config.phc)
		return 0;
	phc->info = (struct ptp_clock_info){
		.owner = THIS_MODULE,
		.name = "labfab",
		.max_adj = 100000000,
		.adjfine = fab_phc_adjfine,
		.adjtime = fab_phc_adjtime,
		.gettimex64 = fab_phc_gettimex64,
		.settime64 = fab_phc_settime64,
	};
	phc->clock = ptp_clock_register(&phc->info, NULL);
	return PTR_ERR_OR_ZERO(phc->clock);
}

void fab_phc_exit(struct fab_host *host)
{
	if (!IS_ERR_OR_NULL(host->phc.clock))
		ptp_clock_unregister(host->phc.clock);
}
