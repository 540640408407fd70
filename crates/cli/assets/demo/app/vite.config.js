import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  // Relative, so that the built page works in any folder of a web server.
  base: "./",
  plugins: [react()],
});
