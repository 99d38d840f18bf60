// The routes as openapi.json describes them. Keys are asked for by "Authorize" and forgotten with the page.

// The library writes markup that it has cleaned itself. The policy still lets no script run but those of this server.
self.trustedTypes?.createPolicy("default", { createHTML: (markup) => markup });

addEventListener("DOMContentLoaded", () => {
  SwaggerUIBundle({
    url: "openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    validatorUrl: null,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
  });
});
