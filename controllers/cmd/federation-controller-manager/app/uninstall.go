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
	// answerTimeout is how long the federation API may be away while an
	// uninstallation asks what is peered, as during a restart.
	answerTimeout = 30 * time.Second
	// cleanUpTimeout is how long namespaces and nodes take to go once nobody is
	// waited for any more.
	cleanUpTimeout = time.Minute
	// uninstallInterval is how often is looked what is left.
	uninstallInterval = time.Second
	// maxDeadline is as long as unpeering may take.
	maxDeadline = 24 * time.Hour
)

var errInUse = errors.New("the federation is in use, so it is not uninstalled")

// uninstaller tells what the federation is used for, and ends that if it is
// told to. When it is used for nothing, it removes what the chart did not make.
type uninstaller struct {
	kube       kubernetes.Interface
	federation versioned.Interface
	// volumes reads and hands back what the storage of the federation holds.
	volumes client.Client
	out     io.Writer
	// namespace is where the product is installed.
	namespace string
	// storageClass and storageNamespace are those of the virtual storage class.
	storageClass, storageNamespace string
	// force unpeers, and waits for other clusters until the deadline.
	force    bool
	deadline time.Duration

	answerTimeout, cleanUpTimeout, interval time.Duration
}

// newUninstallCommand makes the command that `helm uninstall` runs first.
func newUninstallCommand() *cobra.Command {
	var kubeconfig string
	u := &uninstaller{
		namespace: "liqo", storageClass: "liqo", storageNamespace: "liqo-storage", deadline: 2 * time.Minute,
		answerTimeout: answerTimeout, cleanUpTimeout: cleanUpTimeout, interval: uninstallInterval,
	}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Tell whether the federation is in use, and with --force end that",
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
				return fmt.Errorf("make a client of this cluster: %w", err)
			}
			if u.federation, err = versioned.NewForConfig(config); err != nil {
				return fmt.Errorf("make a client of the federation API: %w", err)
			}
			if u.volumes, err = client.New(config, client.Options{Scheme: kit.NewScheme()}); err != nil {
				return fmt.Errorf("creating a client of volumes: %w", err)
			}
			u.out = cmd.OutOrStdout()
			return u.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", kubeconfig, "Kubeconfig file of this cluster. Empty uses the service account of the pod.")
	cmd.Flags().StringVar(&u.namespace, "namespace", u.namespace, "Namespace of the installation, where the keys of the gateway are.")
	cmd.Flags().StringVar(&u.storageClass, "storage-class", u.storageClass, "Name of the virtual StorageClass.")
	cmd.Flags().StringVar(&u.storageNamespace, "storage-namespace", u.storageNamespace, "Namespace of the capacity objects of the virtual storage class.")
	cmd.Flags().BoolVar(&u.force, "force", u.force, "Bring offloaded namespaces home and unpeer from every cluster, instead of refusing while there are some.")
	cmd.Flags().DurationVar(&u.deadline, "deadline", u.deadline, "How long --force waits for other clusters, where their ForeignClusters do not say less.")
	return cmd
}

// run fails, and says why, as long as something is in use.
func (u *uninstaller) run(ctx context.Context) error {
	used, err := u.ask(ctx)
	if err != nil {
		return err
	}
	switch {
	case used.empty():
		fmt.Fprintln(u.out, "Nothing is peered or offloaded.")
		return u.removeRest(ctx)
	case !used.answered:
		fmt.Fprintf(u.out, "The federation API does not answer, so nothing can be unpeered:\n%s"+
			"Repair it first: `kubectl describe apiservice v1alpha1.%s` says what is wrong. If it cannot come back,\n"+
			"`helm uninstall --no-hooks` uninstalls anyway, and leaves these namespaces for you to delete.\n", used.describe(), v1alpha1.GroupName)
		return errInUse
	case !u.force:
		fmt.Fprintf(u.out, "The federation is in use:\n%s"+
			"End that first, and then uninstall again:\n%s"+
			"A cluster that does not answer is waited for as long as spec.disconnectTimeoutSeconds of its ForeignCluster says.\n", used.describe(), used.commands())
		return errInUse
	}
	fmt.Fprintf(u.out, "Ending this, for %s at most:\n%s", u.deadline, used.describe())
	if err := u.end(ctx, used); err != nil {
		return err
	}
	return u.removeRest(ctx)
}

// removeRest hands the volumes back and removes the keys of the gateway.
func (u *uninstaller) removeRest(ctx context.Context) error {
	if err := consumer.HandBack(ctx, u.volumes, u.storageClass, u.storageNamespace); err != nil {
		return fmt.Errorf("%w: uninstall again, or leave the volumes with `helm uninstall --no-hooks`", err)
	}
	return u.removeKeys(ctx)
}

// removeKeys removes the keys of the gateway, which the controllers have made
// and nobody calls any more. They are deleted unseen.
func (u *uninstaller) removeKeys(ctx context.Context) error {
	err := u.kube.CoreV1().Secrets(u.namespace).Delete(ctx, v1alpha1.WireGuardSecret, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the keys of the gateway, Secret %s/%s: %w: uninstall again, or delete it yourself and use `helm uninstall --no-hooks`",
			u.namespace, v1alpha1.WireGuardSecret, err)
	}
	return nil
}

// ask tells what is in use. An API server that is gone does not answer; what
// it kept shows in the namespaces that are left.
func (u *uninstaller) ask(ctx context.Context) (used *use, err error) {
	var answer error
	waitErr := apiwait.PollUntilContextTimeout(ctx, u.interval, u.answerTimeout, true, func(ctx context.Context) (bool, error) {
		used, answer = u.look(ctx)
		// Without an APIService there is nobody to ask.
		return answer == nil || apierrors.IsNotFound(answer), nil
	})
	if waitErr == nil && answer == nil {
		return used, nil
	}
	fmt.Fprintf(u.out, "The federation API does not answer: %v\n", cmp.Or(answer, waitErr))
	used = &use{}
	used.namespaces, err = u.namespaces(ctx)
	return used, err
}

func (u *uninstaller) look(ctx context.Context) (*use, error) {
	used := &use{answered: true}
	clusters, err := u.federation.FederationV1alpha1().ForeignClusters().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, fc := range clusters.Items {
		if peered(&fc) {
			used.clusters = append(used.clusters, fc)
		}
	}
	offloadings, err := u.federation.FederationV1alpha1().NamespaceOffloadings(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
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

// namespaces are those of peerings: nobody removes them once the controllers
// are gone.
func (u *uninstaller) namespaces(ctx context.Context) ([]string, error) {
	roles := strings.Join([]string{v1alpha1.RoleTenant, v1alpha1.RolePeer, v1alpha1.RoleRemoteNamespace}, ",")
	list, err := u.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: fmt.Sprintf("%s in (%s)", v1alpha1.LabelRole, roles)})
	if err != nil {
		return nil, fmt.Errorf("look for the namespaces of peerings: %w", err)
	}
	var names []string
	for _, namespace := range list.Items {
		names = append(names, namespace.Name)
	}
	return names, nil
}

// end unpeers, and waits until nothing is in use.
func (u *uninstaller) end(ctx context.Context, used *use) error {
	federation := u.federation.FederationV1alpha1()
	for _, offloading := range used.offloadings {
		err := federation.NamespaceOffloadings(offloading.Namespace).Delete(ctx, offloading.Name, *metav1.NewPreconditionDeleteOptions(string(offloading.UID)))
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("bring namespace %s home: %w", offloading.Namespace, err)
		}
	}
	for _, fc := range used.clusters {
		if err := u.unpeer(ctx, &fc); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("unpeer from %s: %w", fc.Name, err)
		}
	}
	left := used
	var failure error
	err := apiwait.PollUntilContextTimeout(ctx, u.interval, u.deadline+u.cleanUpTimeout, true, func(ctx context.Context) (bool, error) {
		now, err := u.look(ctx)
		if failure = err; err != nil {
			return false, nil
		}
		left = now
		return left.empty(), nil
	})
	if err != nil {
		fmt.Fprintf(u.out, "This was not ended in time:\n%s"+
			"Look at the log of Deployment federation-controller-manager, and uninstall again; or leave it behind: `helm uninstall --no-hooks`.\n", left.describe())
		return fmt.Errorf("not everything was ended: %w", cmp.Or(failure, err))
	}
	fmt.Fprintln(u.out, "Nothing is peered or offloaded any more.")
	return nil
}

// unpeer ends both directions of a peering, and waits for the other cluster no
// longer than the deadline.
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
