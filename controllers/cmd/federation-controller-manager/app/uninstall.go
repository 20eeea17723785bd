// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/uninstall"
	"liqo.io/federation/generated/clientset/versioned"
)

// newUninstallCommand returns the command uninstall, which the chart runs before it deletes its objects.
func newUninstallCommand() *cobra.Command {
	var kubeconfig string
	options := uninstall.NewOptions()
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Fail if the federation is in use; with --force, end all peerings first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if options.Deadline < 0 || options.Deadline > uninstall.MaxDeadline {
				return fmt.Errorf("--deadline %v: must be between 0s and %v", options.Deadline, uninstall.MaxDeadline)
			}
			config, err := remote.Local(kubeconfig, "federation-uninstall")
			if err != nil {
				return err
			}
			var clients uninstall.Clients
			if clients.Kube, err = kubernetes.NewForConfig(config); err != nil {
				return fmt.Errorf("creating a client of the local cluster: %w", err)
			}
			if clients.Federation, err = versioned.NewForConfig(config); err != nil {
				return fmt.Errorf("creating a client of the federation API: %w", err)
			}
			if clients.Volumes, err = client.New(config, client.Options{Scheme: kit.NewScheme()}); err != nil {
				return fmt.Errorf("creating a client of volumes: %w", err)
			}
			return uninstall.Run(cmd.Context(), clients, options, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", kubeconfig, kubeconfigHelp)
	flags.StringVar(&options.Namespace, "namespace", options.Namespace,
		"Installation namespace, in which the keys of the gateway are deleted.")
	flags.StringVar(&options.StorageClassName, "storage-class-name", options.StorageClassName,
		"Name of the virtual StorageClass.")
	flags.StringVar(&options.StorageNamespace, "storage-namespace", options.StorageNamespace,
		"Namespace of the CSIStorageCapacities of the virtual StorageClass.")
	flags.BoolVar(&options.Force, "force", options.Force,
		"Unoffload all namespaces and end all peerings, instead of failing if any exist.")
	flags.DurationVar(&options.Deadline, "deadline", options.Deadline,
		"How long --force waits for peers, unless spec.disconnectTimeoutSeconds of their ForeignClusters is less.")
	return cmd
}
