// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"liqo.io/federation/apiserver/options"
	"liqo.io/federation/apiserver/storage"
)

// standardInput is the value of --snapshot that selects the standard input.
const standardInput = "-"

const snapshotLong = `Writes a snapshot of the embedded etcd of a running API server to the standard
output, followed by a checksum. The server continues to run. For example:

  kubectl exec federation-apiserver-0 --namespace liqo -- \
    federation-apiserver snapshot > federation.db`

const restoreLong = `Restores a snapshot into a data directory that no API server uses. Resource
versions continue far beyond those of the snapshot, so that every client lists
again. Existing data is never overwritten: the command fails, or renames it.`

func newSnapshotCommand(out io.Writer) *cobra.Command {
	dir := options.DefaultDataDir
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Writes a snapshot of the stored objects to the standard output",
		Long:  snapshotLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return storage.WriteSnapshot(cmd.Context(), dir, out)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "Data directory of the running API server: the value of its --data-dir.")
	return cmd
}

func newRestoreCommand(out io.Writer) *cobra.Command {
	o := storage.RestoreOptions{DataDir: options.DefaultDataDir}
	cmd := &cobra.Command{
		Use:   "restore --snapshot FILE",
		Short: "Restores a snapshot into an empty data directory",
		Long:  restoreLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return restore(cmd.Context(), o, cmd.InOrStdin(), out)
		},
	}
	cmd.Flags().StringVar(&o.Snapshot, "snapshot", "",
		"File with the snapshot. - reads the standard input; newest selects the newest snapshot in the directory "+
			"snapshots of --data-dir. Required.")
	cmd.Flags().StringVar(&o.DataDir, "data-dir", o.DataDir, "Data directory into which the snapshot is restored.")
	cmd.Flags().BoolVar(&o.SetAside, "set-aside", false,
		"Rename the directory etcd in --data-dir, if it exists, to etcd.aside-<time>. If false, the command fails if it "+
			"exists.")
	return cmd
}

func restore(ctx context.Context, o storage.RestoreOptions, in io.Reader, out io.Writer) (err error) {
	if o.Snapshot == "" {
		return errors.New("--snapshot is required: it must be a file, - for the standard input, or newest")
	}
	if o.Snapshot == standardInput {
		// The file is in the data directory because other file systems of the pod are read-only or
		// small.
		file, err := os.CreateTemp(o.DataDir, "snapshot-")
		if err != nil {
			return fmt.Errorf("creating a file for the snapshot: %w", err)
		}
		defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
		if err := receive(ctx, file, in); err != nil {
			return errors.Join(fmt.Errorf("reading the snapshot: %w", err), file.Close())
		}
		if err := file.Close(); err != nil {
			return err
		}
		o.Snapshot = file.Name()
	}
	restored, err := storage.Restore(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "restored %d objects as of revision %d into %s\n", restored.Keys, restored.Revision, o.DataDir)
	if restored.Aside != "" {
		fmt.Fprintf(out, "the earlier data is now in %s\n", restored.Aside)
	}
	return nil
}

// receive copies all data from in to out. If ctx is done before the end of the data, it returns at once with the error
// of ctx, although a read from the standard input cannot be interrupted.
func receive(ctx context.Context, out io.Writer, in io.Reader) error {
	received := make(chan error, 1)
	go func() {
		_, err := io.Copy(out, in)
		received <- err
	}()
	select {
	case err := <-received:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
