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

// keyring holds the private key of the tunnel, and the keys derived from it by which the gateways of the cluster
// authenticate each other. A key from the Secret takes precedence over the key in the file.
type keyring struct {
	file string

	mu         sync.Mutex
	fromSecret bool
	current    model.PrivateKey
	// shared are derived from the current and the previous private key, as the gateways do not receive a new
	// private key at the same time.
	shared []probe.Key
}

// read returns the private key from the Secret if there was one, and otherwise from the file, which it reads. It fails
// if the file cannot be read or contains no key.
func (k *keyring) read() (model.PrivateKey, error) {
	k.mu.Lock()
	current, fromSecret := k.current, k.fromSecret
	k.mu.Unlock()
	if fromSecret {
		return current, nil
	}
	text, err := os.ReadFile(k.file)
	if err != nil {
		return model.PrivateKey{}, fmt.Errorf("reading the private key: %w", err)
	}
	return k.set(text, k.file, false)
}

// setFromSecret makes the key in a Secret the current key. It fails if the data is not a key.
func (k *keyring) setFromSecret(text []byte) error {
	_, err := k.set(text, "Secret "+v1alpha1.WireGuardSecret, true)
	return err
}

// set makes a key the current key, and returns the current key. It ignores a key from the file after a key from the
// Secret, and fails if the text is not a key.
func (k *keyring) set(text []byte, from string, fromSecret bool) (model.PrivateKey, error) {
	raw, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSpace(text))
	if err != nil || len(raw) != len(model.PrivateKey{}) {
		// The error must not contain the text, which may be part of a key.
		return model.PrivateKey{}, fmt.Errorf("reading the private key: %s does not hold 32 bytes in base64", from)
	}
	key := model.PrivateKey(raw)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fromSecret && !fromSecret {
		return k.current, nil
	}
	k.fromSecret = fromSecret
	if len(k.shared) == 0 || key != k.current {
		k.current = key
		k.shared = append([]probe.Key{probe.KeyOf(raw)}, k.shared[:min(1, len(k.shared))]...)
	}
	return key, nil
}

// last returns the private key in use; zero if there is none yet.
func (k *keyring) last() model.PrivateKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// sharedKeys returns the keys by which the gateways of the cluster authenticate each other; none before the
// private key was read.
func (k *keyring) sharedKeys() []probe.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shared
}
