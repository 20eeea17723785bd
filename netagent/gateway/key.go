// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"sync"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/netagent/probe"
)

// keyring is the private key, which may change, and what the gateways of this
// cluster know each other by. It is that of a Secret if one was seen, and else
// that of a file.
type keyring struct {
	file string

	mu      sync.Mutex
	learnt  bool
	current model.PrivateKey
	// shared are the keys derived from the current private key and from the one
	// before: a new one does not reach every gateway at the same time.
	shared []probe.Key
}

// read is the key that a Secret had, or reads the file.
func (k *keyring) read() (model.PrivateKey, error) {
	k.mu.Lock()
	current, learnt := k.current, k.learnt
	k.mu.Unlock()
	if learnt {
		return current, nil
	}
	text, err := os.ReadFile(k.file)
	if err != nil {
		return model.PrivateKey{}, fmt.Errorf("reading the private key: %w", err)
	}
	return k.take(text, k.file, false)
}

// learn takes what a Secret holds.
func (k *keyring) learn(text []byte) error {
	_, err := k.take(text, "Secret "+v1alpha1.WireGuardSecret, true)
	return err
}

// take takes a key, unless a better source than the one it is from was seen.
func (k *keyring) take(text []byte, from string, best bool) (model.PrivateKey, error) {
	raw, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSpace(text))
	if err != nil || len(raw) != len(model.PrivateKey{}) {
		// What it holds is not told.
		return model.PrivateKey{}, fmt.Errorf("reading the private key: %s does not hold 32 bytes in base64", from)
	}
	key := model.PrivateKey(raw)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.learnt && !best {
		return k.current, nil
	}
	k.learnt = best
	if len(k.shared) == 0 || key != k.current {
		k.current = key
		k.shared = append([]probe.Key{probe.KeyOf(raw)}, k.shared[:min(1, len(k.shared))]...)
	}
	return key, nil
}

// known is the private key that was read last.
func (k *keyring) known() model.PrivateKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// keys are what gateways know each other by; none before the file was read.
func (k *keyring) keys() []probe.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shared
}
