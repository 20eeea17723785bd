// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app implements the commands of the federation API server.
package app

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // the log format json

	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/nearest"
	"liqo.io/federation/apiserver/options"
)

// helpColumns is the maximum width of lines in the help text, in characters.
const helpColumns = 110

const long = `Serves the API group federation.liqo.io to the clients of a Kubernetes cluster.

kube-apiserver forwards requests to the server by an APIService, and
authenticates and authorizes their users. Objects are stored in a separate etcd:
an embedded one with its data in --data-dir, or the one of --etcd-servers.

In a pod it requires only:

  federation-apiserver --cluster-name=rome \
    --tls-cert-file=/etc/federation/tls/tls.crt \
    --tls-private-key-file=/etc/federation/tls/tls.key

Its service account requires ClusterRole system:auth-delegator, Role
extension-apiserver-authentication-reader in kube-system, and ClusterRole
federation-apiserver. /livez and /readyz report its health, /metrics its metrics
to permitted users. The commands snapshot and restore save and restore the data
of the embedded etcd.`

// NewCommand returns the command federation-apiserver, which serves the API until its context is done.
// Its subcommands take and restore snapshots of the embedded etcd. Help and snapshots are written to
// out. If flags are invalid, its error has one line for each.
func NewCommand(out io.Writer) *cobra.Command {
	o := options.New()
	cmd := &cobra.Command{
		Use:           "federation-apiserver",
		Short:         "Serves the API of the federation",
		Long:          long,
		Version:       compatibility.Version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if errs := o.Validate(); len(errs) > 0 {
				return errors.Join(errs...)
			}
			if err := logsapi.ValidateAndApply(o.Logging, nil); err != nil {
				return fmt.Errorf("setting up the log: %w", err)
			}
			defer logs.FlushLogs()
			return o.Run(cmd.Context())
		},
	}
	cmd.SetOut(out)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return nearest.FlagError(cmd.Flags(), err)
	})
	sets := o.Flags()
	for _, set := range sets.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	cliflag.SetUsageAndHelpFunc(cmd, sets, helpColumns)
	for _, sub := range []*cobra.Command{newSnapshotCommand(out), newRestoreCommand(out)} {
		// Without its own usage function, the help of a subcommand would list the flags of the server.
		plain := &cobra.Command{}
		sub.SetUsageFunc(plain.UsageFunc())
		sub.SetHelpFunc(plain.HelpFunc())
		cmd.AddCommand(sub)
	}
	return cmd
}
