// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/virtualkubelet/server"
	"liqo.io/federation/generated/clientset/versioned"
)

// clients talk to both clusters.
type clients struct {
	core       kubernetes.Interface
	federation versioned.Interface
	dynamic    dynamic.Interface
	remote     RemoteClients
	provider   *server.Provider
	// identity is what this cluster is to the provider, as it was read first.
	identity *remote.Identity
	// tenantNamespace is this cluster's on the provider.
	tenantNamespace string
	// homeAudience is what tokens for this cluster are asked for with.
	homeAudience string
}

// local is how this cluster is reached.
func local(options *Options) (*rest.Config, error) {
	return remote.Local(options.Kubeconfig, "virtual-kubelet")
}

func connect(options *Options) (*clients, error) {
	here, err := local(options)
	if err != nil {
		return nil, err
	}
	c := &clients{homeAudience: homeAudience(here)}
	if c.core, err = kubernetes.NewForConfig(tuned(here, options)); err != nil {
		return nil, fmt.Errorf("making clients of this cluster: %w", err)
	}
	if c.federation, err = versioned.NewForConfig(tuned(here, options)); err != nil {
		return nil, fmt.Errorf("making clients of this cluster: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(tuned(here, options)); err != nil {
		return nil, fmt.Errorf("making clients of this cluster: %w", err)
	}

	identity, err := remote.FromDirectory(options.IdentityDir)
	if err != nil {
		return nil, err
	}
	there, err := configOf(identity, options)
	if err != nil {
		return nil, err
	}
	c.identity = identity
	c.tenantNamespace = identity.Namespace

	all, err := remote.NewClients(tuned(there, options))
	if err != nil {
		return nil, err
	}
	c.remote = RemoteClients{Core: all.Kube, Federation: all.Federation, Dynamic: all.Dynamic, Metadata: all.Metadata, Metrics: all.Metrics}
	if c.provider, err = server.NewProvider(there); err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", there.Host, err)
	}
	return c, nil
}

// configOf is how the provider is reached. What a renewal changes is read from
// the files of the identity again and again, without a restart.
func configOf(identity *remote.Identity, options *Options) (*rest.Config, error) {
	config, err := remote.Config(identity)
	if options.Dial != nil {
		config, err = remote.ConfigDialing(identity, options.Dial)
	}
	if err != nil {
		return nil, err
	}
	if identity.Token != "" {
		config.BearerToken, config.BearerTokenFile = "", filepath.Join(options.IdentityDir, remote.KeyToken)
	} else {
		config.CertData, config.KeyData = nil, nil
		config.CertFile = filepath.Join(options.IdentityDir, remote.KeyCertificate)
		config.KeyFile = filepath.Join(options.IdentityDir, remote.KeyPrivateKey)
	}
	return config, nil
}

// errMoved says that what was read once is not so any more.
var errMoved = errors.New("the provider is reached in another way now")

// stays returns when the files of the identity lead to another place, or to
// the same one by another kind of identity or verified by other authorities:
// clients have to be made anew then.
func stays(ctx context.Context, identity *remote.Identity, dir string, clock clock.WithTicker) error {
	ticker := clock.NewTicker(identityCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		now, err := remote.FromDirectory(dir)
		if err != nil {
			// The kubelet is writing them; without any, the probe tells.
			continue
		}
		if now.Server != identity.Server || now.ProxyURL != identity.ProxyURL || now.Namespace != identity.Namespace ||
			now.Account != identity.Account || !bytes.Equal(now.CA, identity.CA) ||
			now.Control != identity.Control || !bytes.Equal(now.ProxyCA, identity.ProxyCA) {
			return errMoved
		}
	}
}

// identityCheck is how often the files of the identity are looked at.
const identityCheck = 10 * time.Second

// tuned is a configuration without limits on this side: a pod costs few
// requests, and the API servers have fair queues for them.
func tuned(config *rest.Config, options *Options) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	config.UserAgent = "virtual-kubelet/" + options.NodeName
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}

// check asks the provider for the offer that the node is made from, which
// needs its API server, our rights there and its federation API.
func (c *clients) check(ctx context.Context, vn *v1alpha1.VirtualNode) (string, error) {
	version, err := c.remote.Core.Discovery().ServerVersionWithContext(ctx)
	if err != nil {
		return "", err
	}
	if vn != nil && vn.Spec.OfferName != "" {
		if _, err := c.remote.Federation.FederationV1alpha1().ResourceOffers(c.tenantNamespace).Get(ctx, vn.Spec.OfferName, metav1.GetOptions{}); err != nil {
			return "", err
		}
	}
	return version.GitVersion, nil
}
