// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentconfig "k8s.io/component-base/config"

	"liqo.io/federation/controllers/leader"
)

const (
	// A leader stops when it could not renew its Lease for renewDeadline. Another process can acquire the Lease only
	// later, when it was not renewed for leaseDuration.
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	// retryPeriod is the time between two attempts to acquire or renew the Lease.
	retryPeriod = time.Second
)

func newLeaderElection() componentconfig.LeaderElectionConfiguration {
	return componentconfig.LeaderElectionConfiguration{
		LeaderElect:   true,
		LeaseDuration: metav1.Duration{Duration: leaseDuration},
		RenewDeadline: metav1.Duration{Duration: renewDeadline},
		RetryPeriod:   metav1.Duration{Duration: retryPeriod},
		ResourceLock:  resourcelock.LeasesResourceLock,
	}
}

// validateLeaderElection returns an error for each value that leaderelection would panic on.
func validateLeaderElection(c *componentconfig.LeaderElectionConfiguration) []error {
	if !c.LeaderElect {
		return nil
	}
	var errs []error
	if c.LeaseDuration.Duration <= c.RenewDeadline.Duration {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline %s: must be less than --leader-elect-lease-duration %s",
			c.RenewDeadline.Duration, c.LeaseDuration.Duration))
	}
	if c.RetryPeriod.Duration <= 0 ||
		float64(c.RenewDeadline.Duration) <= leaderelection.JitterFactor*float64(c.RetryPeriod.Duration) {
		errs = append(errs, fmt.Errorf(
			"--leader-elect-retry-period %s: must be more than 0 and, times %.1f, less than --leader-elect-renew-deadline %s",
			c.RetryPeriod.Duration, leaderelection.JitterFactor, c.RenewDeadline.Duration))
	}
	if c.ResourceLock != resourcelock.LeasesResourceLock {
		errs = append(errs, fmt.Errorf("--leader-elect-resource-lock %q: must be %s",
			c.ResourceLock, resourcelock.LeasesResourceLock))
	}
	return errs
}

// newLock returns the lock on the Lease for which the replicas of one Deployment compete. Unless a flag names the
// Lease, it has the name of the ServiceAccount: Deployments with different ServiceAccounts run different controllers,
// and each elects its own leader.
func newLock(client *rest.Config, o *Options) (resourcelock.Interface, error) {
	c := o.LeaderElection
	identity, err := leader.Identity()
	if err != nil {
		return nil, err
	}
	namespace, name := cmp.Or(c.ResourceNamespace, o.Namespace), cmp.Or(c.ResourceName, o.ServiceAccount)
	return resourcelock.NewFromKubeconfig(c.ResourceLock, namespace, name,
		resourcelock.ResourceLockConfig{Identity: identity}, client, c.RenewDeadline.Duration)
}
