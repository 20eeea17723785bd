// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// Release is the name of the Helm release.
	Release = "liqo"
	// Namespace is the namespace of the Helm release.
	Namespace = "liqo"
)

// LoadImages loads the built images of the product on every node.
func (p *Playground) LoadImages(ctx context.Context) error {
	pattern := p.images("*.tar")
	tars, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	if len(tars) == 0 {
		return fmt.Errorf("no images at %s; run: make images", pattern)
	}
	return p.Load(ctx, tars...)
}

func (p *Playground) images(name string) string {
	return filepath.Join(p.Root, "_output", "images", name)
}

// ImageVersion returns the tag of the images in the repository's output directory.
func (p *Playground) ImageVersion() (string, error) {
	version, err := os.ReadFile(p.images("version"))
	if err != nil {
		return "", fmt.Errorf("version of the images: %w; run: make images", err)
	}
	return strings.TrimSpace(string(version)), nil
}

// Install installs or upgrades the Helm release, and waits until it is ready. values have the
// format "key=value" of "helm --set".
func (c *Cluster) Install(ctx context.Context, values ...string) error {
	version, err := c.playground.ImageVersion()
	if err != nil {
		return err
	}
	args := []string{
		"upgrade", "--install", Release, filepath.Join(c.playground.Root, "artifacts", "chart"),
		"--namespace", Namespace, "--create-namespace", "--wait", "--timeout", "3m",
		"--set", "clusterName=" + c.Name,
		"--set", "server=" + c.Config.Host,
		"--set-string", "images.tag=" + version,
		// The clusters of a test have one owner, unless the test states something else.
		"--set", "policy.trust=SameOwner",
	}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return c.Helm(ctx, args...).Err
}

// Uninstall deletes the Helm release, and waits until its objects are deleted.
func (c *Cluster) Uninstall(ctx context.Context) error {
	return c.Helm(ctx, "uninstall", Release, "--namespace", Namespace, "--wait", "--timeout", "2m").Err
}

// Peer creates an invitation for the consumer on the provider, and accepts it on the consumer. The
// ForeignCluster has the name of the provider.
func Peer(ctx context.Context, consumer, provider *Cluster) error {
	id, err := consumer.ID(ctx)
	if err != nil {
		return err
	}
	token := &v1alpha1.PeeringToken{
		ObjectMeta: metav1.ObjectMeta{GenerateName: consumer.Name + "-"},
		Spec:       v1alpha1.PeeringTokenSpec{ConsumerClusterID: id},
	}
	token, err = provider.Federation.FederationV1alpha1().PeeringTokens().Create(ctx, token, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	invitation, err := provider.Federation.FederationV1alpha1().PeeringTokens().CreateInvitation(ctx, token.Name,
		&v1alpha1.Invitation{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = consumer.Federation.FederationV1alpha1().ForeignClusters().CreatePeer(ctx, provider.Name,
		invitation.Status.Peering, metav1.CreateOptions{})
	return err
}
