// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mover copies the files of one volume to another: rsync between two pods, over
// TLS. The receiving pod accepts connections that present the certificate of the move,
// the sending pod copies in passes. No pod has a token of a ServiceAccount, and the
// certificate's key is in a mounted file only.
//
// rsync runs as a server on the receiver, not as its daemon: without chroot the
// daemon rewrites the targets of symbolic links.
package mover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"liqo.io/federation/apiserver/nearest"
)

// Program is the path of this program in its image.
const Program = "/federation-mover"

// Modes are the first argument of the program.
const (
	// ModeReceive accepts connections and writes to the volume.
	ModeReceive = "receive"
	// ModeSend copies the volume to a receiver.
	ModeSend = "send"
	// ModeReady reports by its exit code whether the mover of this pod is ready: a
	// receiver that accepts connections, a sender whose passes before the last are done.
	ModeReady = "ready"
	// modeConnect is the mode that rsync of the sender runs as its remote shell.
	modeConnect = "connect"
)

// Paths in the containers of movers.
const (
	// DataPath is where the volume is mounted.
	DataPath = "/data"
	// IdentityPath is where the Secret with the certificate of the move is mounted: it is of
	// type kubernetes.io/tls.
	IdentityPath = "/etc/mover"
	// PassPath is the file of the receiver that starts the last pass once it holds
	// PassFinal.
	PassPath = "/etc/pass/pass"
	// StatePath is a writable directory that is empty when a pod starts.
	StatePath = "/run/mover"
	// TerminationPath is where the result is written for the pod's status.
	TerminationPath = "/dev/termination-log"
)

// Port is the TCP port of receivers.
const Port = 8873

// PassFinal is the content of the file PassPath that starts the last pass.
const PassFinal = "final"

// Options are the flags of the program.
type Options struct {
	// Data is the directory of the volume.
	Data string
	// Certificate and PrivateKey are the files with what NewIdentity returned.
	Certificate, PrivateKey string
	// Pass is the file that starts the last pass. Only the receiver has it, and the sender
	// requests it, because a kubelet does not refresh files of a pod whose claim is locked.
	Pass string
	// State is a writable directory.
	State string
	// Termination is the file that the last report is written to.
	Termination string
	// Address is host:port that a receiver accepts connections on, or that a sender
	// connects to.
	Address string
	// Bandwidth is the maximum bandwidth of the sender, in bytes per second; 0 sets no limit.
	Bandwidth int64
	// Full compares the checksums of all files at the end; otherwise only files are compared that
	// changed since the start of the last pass but one.
	Full bool
	// program is the path of this program, which rsync runs again.
	program string
}

// addFlags binds the options to flags.
func (o *Options) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Data, "data", DataPath, "Directory of the volume.")
	fs.StringVar(&o.Certificate, "tls-cert-file", IdentityPath+"/tls.crt", "File with the certificate of the move.")
	fs.StringVar(&o.PrivateKey, "tls-private-key-file", IdentityPath+"/tls.key", "File with its private key.")
	fs.StringVar(&o.Pass, "pass", PassPath,
		"File of the receiver that starts the last pass once it holds the word "+PassFinal+".")
	fs.StringVar(&o.State, "state", StatePath, "Writable directory.")
	fs.StringVar(&o.Termination, "termination", TerminationPath, "File that the last report is written to.")
	fs.StringVar(&o.Address, "address", fmt.Sprintf(":%d", Port), "host:port to accept connections on, or to connect to.")
	fs.Int64Var(&o.Bandwidth, "bandwidth", 0,
		"Maximum number of bytes that the sender transfers per second. 0 sets no limit.")
	fs.BoolVar(&o.Full, "full", false, "Compare the checksums of all files at the end.")
}

// Run runs the mode that the first argument of the program names, until it completes or the
// context ends.
func Run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("reading arguments: the first one must be receive or send")
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the path of this program: %w", err)
	}
	mode, args := args[0], args[1:]
	o := Options{program: program}
	flags := pflag.NewFlagSet(mode, pflag.ContinueOnError)
	// Arguments after the host are arguments of rsync.
	flags.SetInterspersed(mode != modeConnect)
	o.addFlags(flags)
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading arguments: %w", nearest.FlagError(flags, err))
	}
	switch mode {
	case ModeReceive:
		return receive(ctx, &o)
	case ModeSend:
		return send(ctx, &o)
	case modeConnect:
		return connect(ctx, &o, flags.Args(), os.Stdin, os.Stdout)
	case ModeReady:
		_, err := os.Stat(o.readyFile())
		return err
	default:
		return fmt.Errorf("reading arguments: %q is neither %s nor %s", mode, ModeReceive, ModeSend)
	}
}

// readyFile exists while the mover of this pod is ready.
func (o *Options) readyFile() string { return filepath.Join(o.State, "ready") }
