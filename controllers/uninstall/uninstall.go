// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/storage/consumer"
	"liqo.io/federation/generated/clientset/versioned"
)

const (
	// apiTimeout is the maximum time to wait for the federation API, which may be restarting.
	apiTimeout = 30 * time.Second
	// cleanUpTimeout is the time that namespaces and nodes may take to be deleted, in addition to --deadline.
	cleanUpTimeout = time.Minute
	// uninstallInterval is the time between two lists of the objects that still exist.
	uninstallInterval = time.Second
	// maxDeadline is the maximum of --deadline, and of spec.disconnectTimeoutSeconds.
	maxDeadline = 24 * time.Hour
)

var errInUse = errors.New("the federation is in use, so it is not uninstalled")

// uninstaller checks that no object uses the federation. With force, it ends all peerings and offloadings first. It
// then deletes the objects that controllers created outside of the chart's release.
type uninstaller struct {
	kube       kubernetes.Interface
	federation versioned.Interface
	// volumes is the client for PersistentVolumes, claims and storage objects of the local cluster.
	volumes client.Client
	out     io.Writer
	// namespace is the namespace of the installation.
	namespace string
	// storageClassName is the name of the virtual StorageClass, and storageNamespace has its CSIStorageCapacities.
	storageClassName, storageNamespace string
	// force ends all peerings and offloadings. deadline is the maximum time to wait for peers.
	force    bool
	deadline time.Duration

	apiTimeout, cleanUpTimeout, interval time.Duration
}

// newUninstallCommand returns the command uninstall, which the chart runs before it deletes its objects.
func newUninstallCommand() *cobra.Command {
	var kubeconfig string
	u := &uninstaller{
		namespace: "liqo", storageClassName: "liqo", storageNamespace: "liqo-storage", deadline: 2 * time.Minute,
		apiTimeout: apiTimeout, cleanUpTimeout: cleanUpTimeout, interval: uninstallInterval,
	}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Fail if the federation is in use; with --force, end all peerings first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if u.deadline < 0 || u.deadline > maxDeadline {
				return fmt.Errorf("--deadline %v: must be between 0s and %v", u.deadline, maxDeadline)
			}
			config, err := remote.Local(kubeconfig, "federation-uninstall")
			if err != nil {
				return err
			}
			if u.kube, err = kubernetes.NewForConfig(config); err != nil {
				return fmt.Errorf("creating a client of the local cluster: %w", err)
			}
			if u.federation, err = versioned.NewForConfig(config); err != nil {
				return fmt.Errorf("creating a client of the federation API: %w", err)
			}
			if u.volumes, err = client.New(config, client.Options{Scheme: kit.NewScheme()}); err != nil {
				return fmt.Errorf("creating a client of volumes: %w", err)
			}
			u.out = cmd.OutOrStdout()
			return u.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", kubeconfig, kubeconfigHelp)
	flags.StringVar(&u.namespace, "namespace", u.namespace,
		"Installation namespace, in which the keys of the gateway are deleted.")
	flags.StringVar(&u.storageClassName, "storage-class-name", u.storageClassName, "Name of the virtual StorageClass.")
	flags.StringVar(&u.storageNamespace, "storage-namespace", u.storageNamespace,
		"Namespace of the CSIStorageCapacities of the virtual StorageClass.")
	flags.BoolVar(&u.force, "force", u.force,
		"Unoffload all namespaces and end all peerings, instead of failing if any exist.")
	flags.DurationVar(&u.deadline, "deadline", u.deadline,
		"How long --force waits for peers, unless spec.disconnectTimeoutSeconds of their ForeignClusters is less.")
	return cmd
}

// run prints the objects that use the federation. If none exist, or once force has ended them, it calls removeRest.
// It fails with errInUse if any exist, and force is false or the federation API is not available.
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
		return errInUse
	case !u.force:
		fmt.Fprintf(u.out, "The federation is in use:\n%s"+
			"Run these commands and uninstall again:\n%s"+
			"The end of a peering waits for the peer for at most spec.disconnectTimeoutSeconds of its ForeignCluster.\n",
			used.describe(), used.commands())
		return errInUse
	}
	fmt.Fprintf(u.out, "Ending all peerings and offloadings within %s:\n%s", u.deadline, used.describe())
	if err := u.end(ctx, used); err != nil {
		return err
	}
	return u.removeRest(ctx)
}

// removeRest deletes the virtual StorageClass, and the finalizers of volumes, so that they remain usable after the
// uninstallation (see consumer.HandBack), and deletes the keys of the gateway.
func (u *uninstaller) removeRest(ctx context.Context) error {
	if err := consumer.HandBack(ctx, u.volumes, u.storageClassName, u.storageNamespace); err != nil {
		return fmt.Errorf("%w: uninstall again, or leave the volumes with `helm uninstall --no-hooks`", err)
	}
	return u.removeKeys(ctx)
}

// removeKeys deletes the Secret with the keys of the gateway, which the controllers created, without reading it.
func (u *uninstaller) removeKeys(ctx context.Context) error {
	err := u.kube.CoreV1().Secrets(u.namespace).Delete(ctx, v1alpha1.WireGuardSecret, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Secret %s/%s with the keys of the gateway: %w: "+
			"uninstall again, or delete it and use `helm uninstall --no-hooks`", u.namespace, v1alpha1.WireGuardSecret, err)
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

// list returns the objects that use the federation. It fails if the federation API is not available.
func (u *uninstaller) list(ctx context.Context) (*use, error) {
	used := &use{complete: true}
	clusters, err := u.federation.FederationV1alpha1().ForeignClusters().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, fc := range clusters.Items {
		if peered(&fc) {
			used.clusters = append(used.clusters, fc)
		}
	}
	offloadings, err := u.federation.FederationV1alpha1().NamespaceOffloadings(metav1.NamespaceAll).
		List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	used.offloadings = offloadings.Items
	if used.volumes, err = consumer.RemoteVolumes(ctx, u.volumes); err != nil {
		return nil, err
	}
	used.namespaces, err = u.namespaces(ctx)
	return used, err
}

// namespaces returns the names of all tenant, peer and remote namespaces, which no controller deletes after the
// uninstallation.
func (u *uninstaller) namespaces(ctx context.Context) ([]string, error) {
	roles := strings.Join([]string{v1alpha1.RoleTenant, v1alpha1.RolePeer, v1alpha1.RoleRemoteNamespace}, ",")
	list, err := u.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{
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
// fails if objects remain after deadline plus cleanUpTimeout.
func (u *uninstaller) end(ctx context.Context, used *use) error {
	federation := u.federation.FederationV1alpha1()
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
	timeout := u.deadline + u.cleanUpTimeout
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

// unpeer deletes a ForeignCluster. If its spec.disconnectTimeoutSeconds exceeds deadline, it is lowered to deadline
// first.
func (u *uninstaller) unpeer(ctx context.Context, fc *v1alpha1.ForeignCluster) error {
	clusters := u.federation.FederationV1alpha1().ForeignClusters()
	seconds := int32(u.deadline / time.Second)
	if ptr.Deref(fc.Spec.DisconnectTimeoutSeconds, v1alpha1.DefaultDisconnectTimeoutSeconds) > seconds {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"disconnectTimeoutSeconds":%d}}`, fc.UID, seconds)
		if _, err := clusters.Patch(ctx, fc.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return clusters.Delete(ctx, fc.Name, *metav1.NewPreconditionDeleteOptions(string(fc.UID)))
}
