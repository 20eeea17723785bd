// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apiwait "k8s.io/apimachinery/pkg/util/wait"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/generated/clientset/versioned"
)

// checkInterval is the interval at which check requests the discovery of the federation API.
const checkInterval = time.Second

// newCheckCommand returns the command check, which `helm test` runs.
func newCheckCommand() *cobra.Command {
	var kubeconfig string
	timeout := time.Minute
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether this cluster serves the federation API",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := remote.Local(kubeconfig, "federation-check")
			if err != nil {
				return err
			}
			client, err := versioned.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("creating a client of the local cluster: %w", err)
			}
			kinds, err := check(cmd.Context(), client, timeout)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "This cluster serves %d resources of %s.\n", kinds, v1alpha1.SchemeGroupVersion)
			return nil
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", kubeconfig, kubeconfigHelp)
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "How long to wait until the federation API is served.")
	return cmd
}

// check waits until the federation API serves at least one resource, and returns the number of its resources. It fails
// after the timeout.
func check(ctx context.Context, client versioned.Interface, timeout time.Duration) (int, error) {
	kinds := 0
	var err error
	waitErr := apiwait.PollUntilContextTimeout(ctx, checkInterval, timeout, true, func(context.Context) (bool, error) {
		list, listErr := client.Discovery().ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
		if err = listErr; err != nil {
			return false, nil
		}
		kinds = len(list.APIResources)
		return kinds > 0, nil
	})
	if waitErr != nil {
		return 0, fmt.Errorf("waiting for %s to be served: %w: see `kubectl describe apiservice v1alpha1.%s`",
			v1alpha1.SchemeGroupVersion, cmp.Or(err, waitErr), v1alpha1.GroupName)
	}
	return kinds, nil
}
