// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package uninstall ensures that no object uses the federation before the chart is uninstalled, and deletes the objects
// that the uninstallation of the chart would leave.
package uninstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/storage/consumer"
	"liqo.io/federation/generated/clientset/versioned"
)

// MaxDeadline is the maximum of Options.Deadline, and of spec.disconnectTimeoutSeconds.
const MaxDeadline = 24 * time.Hour

const (
	// apiTimeout is the maximum time to wait for the federation API, which may be restarting.
	apiTimeout = 30 * time.Second
	// cleanUpTimeout is the time that namespaces and nodes may take to be deleted, in addition to Options.Deadline.
	cleanUpTimeout = time.Minute
	// interval is the time between two lists of the objects that still exist.
	interval = time.Second
)

// ErrInUse is returned if objects use the federation.
var ErrInUse = errors.New("the federation is in use, so it is not uninstalled")

// Options are the settings of an uninstallation.
type Options struct {
	// Namespace is the namespace of the installation.
	Namespace string
	// StorageClassName is the name of the virtual StorageClass, and StorageNamespace has its CSIStorageCapacities.
	StorageClassName, StorageNamespace string
	// Force ends all peerings and offloadings. Deadline is the maximum time to wait for peers, at most MaxDeadline.
	Force    bool
	Deadline time.Duration
}

// NewOptions returns the default options.
func NewOptions() Options {
	return Options{
		Namespace: "liqo", StorageClassName: "liqo", StorageNamespace: "liqo-storage", Deadline: 2 * time.Minute,
	}
}

// Clients are the clients of the local cluster.
type Clients struct {
	Kube       kubernetes.Interface
	Federation versioned.Interface
	// Volumes is the client for PersistentVolumes, claims and storage objects.
	Volumes client.Client
}

// Run prints to out the objects that use the federation. If none exist, or once Options.Force has ended all peerings
// and offloadings, it deletes the objects that controllers created outside of the chart's release. It fails with
// ErrInUse if any exist, and Force is false or the federation API is not available.
func Run(ctx context.Context, clients Clients, options Options, out io.Writer) error {
	u := &uninstaller{
		Clients: clients, Options: options, out: out,
		apiTimeout: apiTimeout, cleanUpTimeout: cleanUpTimeout, interval: interval,
	}
	return u.run(ctx)
}

type uninstaller struct {
	Clients
	Options
	out io.Writer

	apiTimeout, cleanUpTimeout, interval time.Duration
}

// run implements Run.
func (u *uninstaller) run(ctx context.Context) error {
	used, err := u.inUse(ctx)
	if err != nil {
		return err
	}
	switch {
	case used.empty():
		fmt.Fprintln(u.out, "Nothing is peered or offloaded.")
		return u.removeRest(ctx)
	case !used.complete:
		fmt.Fprintf(u.out, "The federation API is not available, so peerings cannot be ended:\n%s"+
			"Repair it first: see `kubectl describe apiservice v1alpha1.%s`. If that is impossible, uninstall with\n"+
			"`helm uninstall --no-hooks`, and delete these namespaces.\n", used.describe(), v1alpha1.GroupName)
		return ErrInUse
	case !u.Force:
		fmt.Fprintf(u.out, "The federation is in use:\n%s"+
			"Run these commands and uninstall again:\n%s"+
			"The end of a peering waits for the peer for at most spec.disconnectTimeoutSeconds of its ForeignCluster.\n",
			used.describe(), used.commands())
		return ErrInUse
	}
	fmt.Fprintf(u.out, "Ending all peerings and offloadings within %s:\n%s", u.Deadline, used.describe())
	if err := u.end(ctx, used); err != nil {
		return err
	}
	return u.removeRest(ctx)
}

// removeRest deletes the virtual StorageClass, and the finalizers of volumes, so that they remain usable after the
// uninstallation (see consumer.HandBack), and deletes the gateway with its keys.
func (u *uninstaller) removeRest(ctx context.Context) error {
	if err := consumer.HandBack(ctx, u.Volumes, u.StorageClassName, u.StorageNamespace); err != nil {
		return fmt.Errorf("%w: uninstall again, or leave the volumes with `helm uninstall --no-hooks`", err)
	}
	return u.removeKeys(ctx)
}

// removeKeys deletes the objects with the keys of the gateway, without reading them. It deletes the Deployment first,
// because a gateway whose Deployment exists creates the objects again.
func (u *uninstaller) removeKeys(ctx context.Context) error {
	for _, object := range []struct {
		kind, name string
		remove     func(context.Context, string, metav1.DeleteOptions) error
	}{
		{"Deployment", v1alpha1.GatewayName, u.Kube.AppsV1().Deployments(u.Namespace).Delete},
		{"Secret", v1alpha1.WireGuardSecret, u.Kube.CoreV1().Secrets(u.Namespace).Delete},
		{"ConfigMap", v1alpha1.WireGuardConfigMap, u.Kube.CoreV1().ConfigMaps(u.Namespace).Delete},
	} {
		if err := object.remove(ctx, object.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %s %s/%s of the gateway: %w: uninstall again, or delete the Secret %s and the "+
				"ConfigMap %s and use `helm uninstall --no-hooks`", object.kind, u.Namespace, object.name, err,
				v1alpha1.WireGuardSecret, v1alpha1.WireGuardConfigMap)
		}
	}
	return nil
}

// inUse returns the objects that use the federation. If the federation API is not available within apiTimeout, it
// returns only the namespaces of peerings.
func (u *uninstaller) inUse(ctx context.Context) (used *use, err error) {
	var listErr error
	listed := func(ctx context.Context) (bool, error) {
		used, listErr = u.list(ctx)
		// NotFound means that the APIService does not exist: waiting does not help.
		return listErr == nil || apierrors.IsNotFound(listErr), nil
	}
	waitErr := apiwait.PollUntilContextTimeout(ctx, u.interval, u.apiTimeout, true, listed)
	if waitErr == nil && listErr == nil {
		return used, nil
	}
	fmt.Fprintf(u.out, "The federation API is not available: %v\n", cmp.Or(listErr, waitErr))
	used = &use{}
	used.namespaces, err = u.namespaces(ctx)
	return used, err
}

// list returns the objects that must be deleted before the federation is uninstalled, for example peered
// ForeignClusters and NamespaceOffloadings. It fails if the federation API is not available.
func (u *uninstaller) list(ctx context.Context) (*use, error) {
	used := &use{complete: true}
	clusters, err := u.Federation.FederationV1alpha1().ForeignClusters().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, fc := range clusters.Items {
		if peered(&fc) {
			used.clusters = append(used.clusters, fc)
		}
	}
	offloadings, err := u.Federation.FederationV1alpha1().NamespaceOffloadings(metav1.NamespaceAll).
		List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	used.offloadings = offloadings.Items
	if used.volumes, err = consumer.VolumesInUse(ctx, u.Volumes); err != nil {
		return nil, err
	}
	used.namespaces, err = u.namespaces(ctx)
	return used, err
}

// namespaces returns the names of all tenant, peer and remote namespaces, which no controller deletes after the
// uninstallation.
func (u *uninstaller) namespaces(ctx context.Context) ([]string, error) {
	roles := strings.Join([]string{v1alpha1.RoleTenant, v1alpha1.RolePeer, v1alpha1.RoleRemoteNamespace}, ",")
	list, err := u.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{
		LabelSelector: fmt.Sprintf("%s in (%s)", v1alpha1.LabelRole, roles),
	})
	if err != nil {
		return nil, fmt.Errorf("listing the namespaces of peerings: %w", err)
	}
	var names []string
	for _, namespace := range list.Items {
		names = append(names, namespace.Name)
	}
	return names, nil
}

// end unoffloads all namespaces, deletes the ForeignClusters in used, and waits until no object uses the federation. It
// fails if objects remain after Options.Deadline plus cleanUpTimeout.
func (u *uninstaller) end(ctx context.Context, used *use) error {
	federation := u.Federation.FederationV1alpha1()
	for _, offloading := range used.offloadings {
		err := federation.NamespaceOffloadings(offloading.Namespace).Delete(ctx, offloading.Name,
			*metav1.NewPreconditionDeleteOptions(string(offloading.UID)))
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("unoffloading namespace %s: %w", offloading.Namespace, err)
		}
	}
	for _, fc := range used.clusters {
		if err := u.unpeer(ctx, &fc); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("ending the peering with %s: %w", fc.Name, err)
		}
	}
	left := used
	var failure error
	timeout := u.Deadline + u.cleanUpTimeout
	err := apiwait.PollUntilContextTimeout(ctx, u.interval, timeout, true, func(ctx context.Context) (bool, error) {
		now, err := u.list(ctx)
		if failure = err; err != nil {
			return false, nil
		}
		left = now
		return left.empty(), nil
	})
	if err != nil {
		fmt.Fprintf(u.out, "These objects still exist after the deadline:\n%s"+
			"See the logs of Deployment federation-controller-manager and uninstall again,\n"+
			"or leave them: `helm uninstall --no-hooks`.\n",
			left.describe())
		return fmt.Errorf("waiting for the end of all peerings: %w", cmp.Or(failure, err))
	}
	fmt.Fprintln(u.out, "Nothing is peered or offloaded any more.")
	return nil
}

// unpeer deletes a ForeignCluster. If its spec.disconnectTimeoutSeconds exceeds Options.Deadline, it is lowered to
// that first.
func (u *uninstaller) unpeer(ctx context.Context, fc *v1alpha1.ForeignCluster) error {
	clusters := u.Federation.FederationV1alpha1().ForeignClusters()
	seconds := int32(u.Deadline / time.Second)
	if ptr.Deref(fc.Spec.DisconnectTimeoutSeconds, v1alpha1.DefaultDisconnectTimeoutSeconds) > seconds {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"disconnectTimeoutSeconds":%d}}`, fc.UID, seconds)
		if _, err := clusters.Patch(ctx, fc.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return clusters.Delete(ctx, fc.Name, *metav1.NewPreconditionDeleteOptions(string(fc.UID)))
}
